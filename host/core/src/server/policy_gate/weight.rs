//! The memory of a request that is held for a decision: once for the policies' copy, once for the
//! request itself.
use peal_model::{Application, PolicyRequest, Size, TargetProc};

/// Returns the memory of a whole request, in bytes.
pub(super) fn bytes_of(request: &PolicyRequest) -> usize {
    let infos = request
        .infos
        .iter()
        .chain(&request.directives)
        .map(|info| Size::of_info(info).bytes)
        .sum::<usize>();
    let codes = size_of_val(request.codes.as_slice()).saturating_mul(2);
    let targets = request
        .targets
        .len()
        .saturating_mul(2 * size_of::<TargetProc>());
    let applications = request
        .applications
        .iter()
        .map(of_application)
        .sum::<usize>();
    [codes, targets, applications]
        .into_iter()
        .fold(infos, usize::saturating_add)
}

/// Returns the memory of an application. Both copies contain its texts.
fn of_application(application: &Application) -> usize {
    let Application {
        command,
        arguments,
        environment,
        directory,
        ..
    } = application;
    let texts = [command]
        .into_iter()
        .chain(arguments)
        .chain(environment)
        .chain(directory);
    let once = texts
        .map(|text| text.len().saturating_add(size_of::<String>()))
        .sum::<usize>();
    once.saturating_add(size_of::<Application>())
        .saturating_mul(2)
}
