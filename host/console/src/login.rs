//! Login by a token, and logout.
use crate::{
    console::Console,
    guard::{BrowserPeer, Visitor, cookie},
    html::{page_without_rights, problem_page},
};
use axum::{
    Extension, Form,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Redirect, Response},
};
use maud::{Markup, html};
use serde::Deserialize;
use std::{sync::Arc, time::Instant};

/// Form of the login.
#[derive(Deserialize)]
pub(crate) struct LoginForm {
    token: String,
}

/// Form of the logout.
#[derive(Deserialize)]
pub(crate) struct LogoutForm {
    form_token: String,
}

/// Shows the form of the login.
pub(crate) async fn login_page() -> Markup {
    form(None)
}

fn form(problem: Option<&str>) -> Markup {
    page_without_rights(
        "Log in",
        &html! {
            form method="post" action="/login" {
                @if let Some(problem) = problem {
                    p.bad role="alert" id="problem" { (problem) }
                }
                p {
                    label for="token" { "Token" }
                    input #token type="password" name="token" required autofocus autocomplete="current-password"
                        aria-describedby=[problem.map(|_| "problem")];
                }
                p { button { "Log in" } }
                p.faint { "The token is in the file that console.token_file or console.admin_token_file names." }
            }
        },
    )
}

/// Begins a session for a right token.
pub(crate) async fn log_in(
    State(console): State<Arc<Console>>,
    peer: Option<Extension<BrowserPeer>>,
    Form(LoginForm { token }): Form<LoginForm>,
) -> Response {
    let Some(rights) = console.tokens.rights(token.trim()) else {
        let from = peer.map(|Extension(peer)| peer.address.ip());
        if !console.delay_wrong_token(from).await {
            let reason = "Too many wrong tokens come at once. Try again in some seconds.";
            return problem_page(StatusCode::TOO_MANY_REQUESTS, "Not logged in", reason);
        }
        let page = form(Some("The token is wrong."));
        return (StatusCode::UNAUTHORIZED, page).into_response();
    };
    match console.sessions.begin(rights, Instant::now()) {
        Ok(session) => {
            let cookie = cookie(console.has_tls(), Some(&session.name));
            ([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response()
        }
        Err(error) => {
            tracing::error!(%error, "console session not begun");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Ends the session.
pub(crate) async fn log_out(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Visitor>,
    Form(LogoutForm { form_token }): Form<LogoutForm>,
) -> Response {
    if !visitor.sent_form(&form_token) {
        let reason = "The form is not one of this session. Load the page again.";
        return problem_page(StatusCode::FORBIDDEN, "Not done", reason);
    }
    if let Some(session) = &visitor.session {
        console.sessions.end(session, Instant::now());
    }
    let cookie = cookie(console.has_tls(), None);
    ([(header::SET_COOKIE, cookie)], Redirect::to("/login")).into_response()
}
