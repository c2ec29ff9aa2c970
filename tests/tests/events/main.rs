//! Events, their handlers and registrations.
mod cluster_faults;
mod filters;
mod floods;
mod handler_completion;
mod handler_failures;
mod late_registration;
mod module_handlers;
mod observers;
mod order;
mod over_servers;
mod owner_precedence;
mod registrations;
mod replies;
mod retention;
