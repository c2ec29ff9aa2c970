//! The web console of a real server, by HTTP and in a headless browser.
mod access;
mod browser;
mod http;
mod pages;
mod process;
mod site;
mod tls;
mod usability;
