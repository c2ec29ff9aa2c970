//! Requests over a connection of their own, as any program can send them.
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// Time limit of an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Answer to a request.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    head: String,
    pub body: String,
}

impl Answer {
    /// Returns a header field.
    pub fn field(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut named = lines.filter(|(found, _)| found.eq_ignore_ascii_case(name));
        named.next().map(|(_, value)| value)
    }

    /// Checks the status.
    #[track_caller]
    pub fn expect(self, status: u16) -> Answer {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    /// Returns the cookie that the answer sets, as the browser sends it back.
    #[track_caller]
    pub fn cookie(&self) -> String {
        let field = self.field("set-cookie").unwrap();
        field.split(';').next().unwrap().to_owned()
    }
}

/// Request that is being made.
#[derive(Clone)]
pub struct HttpRequest {
    first: String,
    fields: Vec<(String, String)>,
    body: String,
}

/// Makes a request for a page.
pub fn get(path: &str) -> HttpRequest {
    HttpRequest {
        first: format!("GET {path} HTTP/1.1"),
        fields: Vec::new(),
        body: String::new(),
    }
}

/// Makes a request that sends a form.
pub fn post(path: &str, form: &str) -> HttpRequest {
    HttpRequest {
        first: format!("POST {path} HTTP/1.1"),
        fields: vec![
            (
                "content-type".into(),
                "application/x-www-form-urlencoded".into(),
            ),
            ("content-length".into(), form.len().to_string()),
        ],
        body: form.to_owned(),
    }
}

impl HttpRequest {
    /// Adds a header field.
    pub fn with(mut self, name: &str, value: impl Into<String>) -> HttpRequest {
        self.fields.push((name.to_owned(), value.into()));
        self
    }

    /// Returns the bytes; the host is that of the address unless a field names it.
    pub fn bytes(&self, address: SocketAddr) -> Vec<u8> {
        let mut text = format!("{}\r\n", self.first);
        if !self.fields.iter().any(|(name, _)| name == "host") {
            text += &format!("host: {address}\r\n");
        }
        for (name, value) in &self.fields {
            text += &format!("{name}: {value}\r\n");
        }
        text += "\r\n";
        text += &self.body;
        text.into_bytes()
    }

    /// Sends it, and reads the whole answer.
    #[track_caller]
    pub fn send(self, address: SocketAddr) -> Answer {
        exchange(connect(address), self, address)
    }
}

/// Connects to a console.
#[track_caller]
pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends a request on a connection, and reads until its end.
#[track_caller]
pub fn exchange(
    mut stream: impl Read + Write,
    request: HttpRequest,
    address: SocketAddr,
) -> Answer {
    let request = request.with("connection", "close");
    stream.write_all(&request.bytes(address)).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    Answer {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head: head.to_owned(),
        body: body.to_owned(),
    }
}
