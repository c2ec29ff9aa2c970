//! Model of the screen of `peal top`: reports and keys in, the content of the screen out. It does no I/O.
use super::{
    detail::{Detail, Fact},
    form::Glyphs,
    panes::Pane,
    table::{ColumnContent, DataTable, RowKey, SortOrder},
};
use crate::{sort_value::SortDirection, table::Side};
use peal_server::admin::{ActivityReport, LiveData};
use std::collections::BTreeMap;

/// Maximum length of a filter, in characters.
const MAX_FILTER: usize = 60;

/// Key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TopKey {
    /// Character.
    Char(char),
    /// Arrow up.
    Up,
    /// Arrow down.
    Down,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// Beginning of the rows.
    Home,
    /// End of the rows.
    End,
    /// Next pane.
    Next,
    /// Previous pane.
    Previous,
    /// Enter.
    Enter,
    /// Escape.
    Escape,
    /// Backspace.
    Backspace,
}

/// Consequence of a key for the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TopAction {
    /// The program continues.
    Continue,
    /// The program ends.
    Quit,
}

/// Mode of the keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyMode {
    /// Keys are commands.
    Commands,
    /// Keys are characters of the filter.
    Filter,
    /// The help is shown.
    Help,
}

/// View of a table: selection, order and filter.
#[derive(Clone, Debug, Default)]
pub struct TableView {
    /// Selected row; none for the first one.
    selected: Option<RowKey>,
    /// Order of the rows; none until one is chosen.
    order: Option<RowOrder>,
    /// Text that rows contain.
    pub filter: String,
    /// Number of rows above the screen.
    pub offset: usize,
}

/// Chosen order of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RowOrder {
    /// Order of the data.
    Data,
    /// Order by a column.
    Column(SortOrder),
}

/// View before any change.
static USUAL_VIEW: TableView = TableView {
    selected: None,
    order: None,
    filter: String::new(),
    offset: 0,
};

/// Details that are shown.
#[derive(Clone, Debug)]
struct OpenedDetail {
    key: RowKey,
    view: TableView,
}

/// Content of the screen below its head.
pub struct ScreenContent {
    /// Title of details.
    pub title: Option<String>,
    /// Facts of details.
    pub facts: Vec<Fact>,
    /// Table, sorted and filtered.
    pub table: DataTable,
    /// Position of the selected row.
    pub selected: usize,
    /// Order of the rows.
    pub order: Option<SortOrder>,
}

/// Model of the screen.
#[derive(Debug)]
pub struct TopModel {
    data: LiveData,
    /// Data that are shown while the screen is paused.
    frozen: Option<Box<LiveData>>,
    glyphs: Glyphs,
    pane: Pane,
    views: BTreeMap<Pane, TableView>,
    opened: Vec<OpenedDetail>,
    mode: KeyMode,
    /// Width of the screen, and number of rows of its table.
    width: u16,
    page: usize,
    /// Reason why no further reports come.
    over: Option<String>,
}

impl TopModel {
    /// Creates a model before the first report.
    pub fn new(data: LiveData, glyphs: Glyphs) -> TopModel {
        TopModel {
            data,
            frozen: None,
            glyphs,
            pane: Pane::Jobs,
            views: BTreeMap::new(),
            opened: Vec::new(),
            mode: KeyMode::Commands,
            width: u16::MAX,
            page: 1,
            over: None,
        }
    }

    /// Takes a report over.
    pub fn report(&mut self, report: ActivityReport) {
        self.data.apply(report);
    }

    /// Says why no further reports come.
    pub fn end(&mut self, reason: String) {
        self.over = Some(reason);
    }

    /// Returns the reason why no further reports come.
    pub fn over(&self) -> Option<&str> {
        self.over.as_deref()
    }

    /// Returns the data that are shown.
    pub fn shown(&self) -> &LiveData {
        self.frozen.as_deref().unwrap_or(&self.data)
    }

    /// Returns true if the screen is paused.
    pub fn is_paused(&self) -> bool {
        self.frozen.is_some()
    }

    /// Returns the pane.
    pub fn pane(&self) -> Pane {
        self.pane
    }

    /// Returns the mode of the keys.
    pub fn mode(&self) -> KeyMode {
        self.mode
    }

    /// Returns the characters of trends and bars.
    pub fn glyphs(&self) -> Glyphs {
        self.glyphs
    }

    /// Returns true if details are shown.
    pub fn is_detail(&self) -> bool {
        !self.opened.is_empty()
    }

    /// Sets the width of the screen and the number of rows of its table.
    pub fn resize(&mut self, width: u16, page: usize) {
        self.width = width;
        self.page = page.max(1);
    }

    /// Returns the view of the table that is shown.
    pub fn view(&self) -> &TableView {
        match self.opened.last() {
            Some(opened) => &opened.view,
            None => self.views.get(&self.pane).unwrap_or(&USUAL_VIEW),
        }
    }

    /// Returns the view of the table that is shown.
    pub fn view_mut(&mut self) -> &mut TableView {
        match self.opened.last_mut() {
            Some(opened) => &mut opened.view,
            None => self.views.entry(self.pane).or_default(),
        }
    }

    /// Returns the content of the screen.
    pub fn content(&self) -> ScreenContent {
        let data = self.shown();
        let view = self.view();
        let (title, facts, mut table) = match self.opened.last() {
            Some(opened) => match Detail::of(&opened.key, data, self.glyphs) {
                Some(Detail {
                    title,
                    facts,
                    table,
                }) => (Some(title), facts, table),
                None => {
                    let gone = DataTable {
                        empty: "this is no longer there; Esc goes back",
                        ..DataTable::default()
                    };
                    (Some("Gone".to_owned()), Vec::new(), gone)
                }
            },
            None => (None, Vec::new(), self.pane.table(data, self.glyphs)),
        };
        table.filter(&view.filter);
        let usual = || match self.opened.last() {
            Some(_) => None,
            None => table.descending_by(self.pane.usual_order()?),
        };
        let order = match view.order {
            Some(RowOrder::Column(order)) => Some(order),
            Some(RowOrder::Data) => None,
            None => usual(),
        };
        if let Some(order) = order {
            table.sort(order);
        }
        ScreenContent {
            title,
            facts,
            selected: table.position(view.selected.as_ref()),
            table,
            order,
        }
    }

    /// Carries out a key.
    pub fn press(&mut self, key: TopKey) -> TopAction {
        match self.mode {
            KeyMode::Help => self.press_in_help(key),
            KeyMode::Filter => {
                self.press_in_filter(key);
                TopAction::Continue
            }
            KeyMode::Commands => self.press_command(key),
        }
    }

    fn press_in_help(&mut self, key: TopKey) -> TopAction {
        self.mode = KeyMode::Commands;
        match key {
            TopKey::Char('q') => TopAction::Quit,
            _ => TopAction::Continue,
        }
    }

    fn press_in_filter(&mut self, key: TopKey) {
        match key {
            TopKey::Char(of) => {
                let filter = &mut self.view_mut().filter;
                if filter.chars().count() < MAX_FILTER {
                    filter.push(of);
                }
            }
            TopKey::Backspace => {
                self.view_mut().filter.pop();
            }
            TopKey::Escape => {
                self.view_mut().filter.clear();
                self.mode = KeyMode::Commands;
            }
            TopKey::Enter => self.mode = KeyMode::Commands,
            _ => {}
        }
    }

    fn press_command(&mut self, key: TopKey) -> TopAction {
        let page = self.page;
        match key {
            TopKey::Char('q') => return TopAction::Quit,
            TopKey::Char('?' | 'h') => self.mode = KeyMode::Help,
            TopKey::Char('/') => self.mode = KeyMode::Filter,
            TopKey::Char('s') => self.sort_by_next_column(),
            TopKey::Char('S') => self.reverse_order(),
            TopKey::Char('p' | ' ') => self.pause_or_continue(),
            TopKey::Char(digit @ '1'..='9') => {
                let position = digit.to_digit(10).and_then(|digit| digit.checked_sub(1));
                let position = position.and_then(|position| usize::try_from(position).ok());
                if let Some(position) = position.filter(|position| *position < Pane::ALL.len()) {
                    self.show(Pane::at(position));
                }
            }
            TopKey::Next => self.show(Pane::at(self.pane.position() + 1)),
            TopKey::Previous => {
                self.show(Pane::at(self.pane.position() + Pane::ALL.len() - 1));
            }
            TopKey::Up | TopKey::Char('k') => self.select(|at, _| at.saturating_sub(1)),
            TopKey::Down | TopKey::Char('j') => self.select(|at, _| at + 1),
            TopKey::PageUp => self.select(|at, _| at.saturating_sub(page)),
            TopKey::PageDown => self.select(|at, _| at + page),
            TopKey::Home | TopKey::Char('g') => self.view_mut().selected = None,
            TopKey::End | TopKey::Char('G') => self.select(|_, last| last),
            TopKey::Enter => self.open(),
            TopKey::Escape | TopKey::Backspace => self.go_back(),
            TopKey::Char(_) => {}
        }
        TopAction::Continue
    }

    fn show(&mut self, pane: Pane) {
        self.pane = pane;
        self.opened.clear();
    }

    /// Selects the row at the position that a function returns of the present and the last one.
    fn select(&mut self, to: impl FnOnce(usize, usize) -> usize) {
        let content = self.content();
        let last = content.table.rows.len().saturating_sub(1);
        let at = to(content.selected, last).min(last);
        // The first row stays selected when another one comes before it.
        let key = content.table.rows.get(at).map(|row| row.key.clone());
        self.view_mut().selected = key.filter(|_| at > 0);
    }

    /// Sorts by the next column that the screen shows; after the last one in the order of the data.
    fn sort_by_next_column(&mut self) {
        let content = self.content();
        let width = self.width;
        let first = content.order.map_or(0, |order| order.column + 1);
        let mut columns = content.table.columns.iter().enumerate().skip(first);
        let next = columns
            .find(|(_, column)| column.screen <= width && column.content == ColumnContent::Values);
        let order = next.map_or(RowOrder::Data, |(column, found)| {
            RowOrder::Column(SortOrder {
                column,
                direction: match found.side {
                    Side::Left => SortDirection::Ascending,
                    Side::Right => SortDirection::Descending,
                },
            })
        });
        self.view_mut().order = Some(order);
    }

    fn reverse_order(&mut self) {
        if let Some(order) = self.content().order {
            let direction = order.direction.reversed();
            self.view_mut().order = Some(RowOrder::Column(SortOrder { direction, ..order }));
        }
    }

    fn pause_or_continue(&mut self) {
        self.frozen = match self.frozen {
            Some(_) => None,
            None => Some(Box::new(self.data.clone())),
        };
    }

    /// Opens the details of the selected row.
    fn open(&mut self) {
        let content = self.content();
        let Some(row) = content.table.rows.get(content.selected) else {
            return;
        };
        if Detail::of(&row.key, self.shown(), self.glyphs).is_some() {
            // The row stays selected when others come before it.
            self.view_mut().selected = Some(row.key.clone());
            self.opened.push(OpenedDetail {
                key: row.key.clone(),
                view: TableView::default(),
            });
        }
    }

    /// Removes the filter, else the details.
    fn go_back(&mut self) {
        let filter = &mut self.view_mut().filter;
        if filter.is_empty() {
            self.opened.pop();
        } else {
            filter.clear();
        }
    }
}
