//! Debug information of a component: the sections that name the file and the line of each instruction. What is shipped has
//! none. The component with them is kept beside the other products of a build, for tests of the module.
use crate::{BuildError, error::of_file};
use peal_declaration::push_length;
use std::{fs, path::Path};

/// Extension of a component with debug information, in the directory of build products.
const EXTENSION: &str = "debug.wasm";

/// Prefix of the names of the sections.
const PREFIX: &[u8] = b".debug_";

/// Length of what precedes the sections, in bytes.
const HEADER: usize = 8;
/// The byte of the header that tells components from core modules, and its value there.
const LAYER: (usize, u8) = (6, 1);
/// Custom section, in components and core modules.
const CUSTOM: u8 = 0;
/// Core module, in components.
const CORE_MODULE: u8 = 1;

/// Keeps the component of a module with debug information in a directory, and returns it without.
pub(crate) fn separate(
    name: &str,
    component: Vec<u8>,
    target: &Path,
) -> Result<Vec<u8>, BuildError> {
    match without(&component) {
        Some(shipped) if shipped != component => {
            let file = target.join(format!("{name}.{EXTENSION}"));
            fs::write(&file, &component).map_err(of_file(&file))?;
            Ok(shipped)
        }
        _ => Ok(component),
    }
}

/// Returns the component with debug information of which this is the part that is shipped, if it is what the module was
/// built to last in the project in this directory.
pub fn with_debug_info(project: &Path, name: &str, shipped: &[u8]) -> Option<Vec<u8>> {
    let target = project.join(crate::project::TARGET);
    let kept = fs::read(target.join(format!("{name}.{EXTENSION}"))).ok()?;
    // Compared whole: lines of another build would be wrong.
    (without(&kept)? == shipped).then_some(kept)
}

/// Returns a component or core module without its debug information; `None` if it is malformed.
fn without(bytes: &[u8]) -> Option<Vec<u8>> {
    let (header, mut rest) = bytes.split_at_checked(HEADER)?;
    let is_component = header.get(LAYER.0) == Some(&LAYER.1);
    let mut kept = header.to_vec();
    while let Some((&kind, after)) = rest.split_first() {
        let (length, contents) = length(after)?;
        let (contents, next) = contents.split_at_checked(length)?;
        let section = rest.get(..rest.len() - next.len())?;
        rest = next;
        match kind {
            CUSTOM if is_debug_info(contents) => {}
            CORE_MODULE if is_component => {
                let module = without(contents)?;
                kept.push(kind);
                push_length(&mut kept, module.len());
                kept.extend(module);
            }
            _ => kept.extend_from_slice(section),
        }
    }
    Some(kept)
}

fn is_debug_info(custom: &[u8]) -> bool {
    length(custom).is_some_and(|(_, name)| name.starts_with(PREFIX))
}

/// Reads a length in LEB128, and returns it with the bytes behind it.
fn length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut length = 0;
    // Lengths have at most 32 bits: five bytes of seven.
    for (at, byte) in bytes.iter().enumerate().take(5) {
        length |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((length, bytes.get(at + 1..)?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str =
        r#"(module (@custom ".debug_line" "lines") (func (export "f")) (@custom "other" "kept"))"#;

    /// Returns a component around a core module.
    fn component(module: &str) -> Vec<u8> {
        let module = module.replacen("(module", "(core module", 1);
        wat::parse_str(format!("(component {module} (@custom \"own\" \"kept\"))")).unwrap()
    }

    #[test]
    fn only_debug_sections_are_removed_from_a_component() {
        let plain = MODULE.replace(r#"(@custom ".debug_line" "lines")"#, "");
        let with = component(MODULE);
        assert_eq!(without(&with).unwrap(), component(&plain));
        assert_eq!(without(&component(&plain)).unwrap(), component(&plain));
        assert_eq!(without(&with[..with.len() - 1]), None, "cut short");
    }

    #[test]
    fn debug_information_of_another_build_is_not_used() {
        let project = tempfile::tempdir().unwrap();
        let target = project.path().join(crate::project::TARGET);
        fs::create_dir(&target).unwrap();
        let with = component(MODULE);
        let shipped = separate("own", with.clone(), &target).unwrap();
        assert_eq!(with_debug_info(project.path(), "own", &shipped), Some(with));
        let other = component("(module)");
        assert_eq!(with_debug_info(project.path(), "own", &other), None);
        assert_eq!(separate("own", other.clone(), &target).unwrap(), other);
    }
}
