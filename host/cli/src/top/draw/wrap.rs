//! Lines of texts that are longer than the screen is wide.
use ratatui::text::Span;

/// Divides a text into lines of this width, at spaces where possible.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_inclusive(' ') {
        for (at, piece) in pieces(word, width).into_iter().enumerate() {
            let used = lines.last().map_or(0, |line| columns(line));
            let is_full = used > 0 && used + columns(piece.trim_end()) > width;
            match lines.last_mut() {
                Some(line) if at == 0 && !is_full => line.push_str(&piece),
                _ => lines.push(piece),
            }
        }
    }
    lines
}

/// Divides a word that is longer than a line.
fn pieces(word: &str, width: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for of in word.chars() {
        let is_full = pieces
            .last()
            .is_some_and(|piece| columns(piece) >= width && of != ' ');
        match pieces.last_mut() {
            Some(piece) if !is_full => piece.push(of),
            _ => pieces.push(of.to_string()),
        }
    }
    pieces
}

/// Returns the width of a text on a terminal.
pub fn columns(text: &str) -> usize {
    Span::raw(text).width()
}
