//! The custom section of a component that holds the declaration of its module, as JSON.
use crate::declaration::{DeclarationError, ModuleDeclaration};

/// Name of the section. A later form has another number, and this release ignores it.
pub const SECTION: &str = "peal:module-declaration/1";

/// Limit of the section's contents, in bytes.
pub const MAX_SECTION_BYTES: usize = 64 * 1024;

/// Number of custom sections in the binary format.
const CUSTOM: u8 = 0;

/// Appends the section to a component.
///
/// # Errors
/// Fails if the declaration has more bytes than the limit.
pub fn add_section(
    component: &mut Vec<u8>,
    declaration: &ModuleDeclaration,
) -> Result<(), DeclarationError> {
    let contents = serde_json::to_vec(declaration)
        .map_err(|error| DeclarationError::Section(error.to_string()))?;
    check_size(&contents)?;
    add_custom_section(component, SECTION, &contents);
    Ok(())
}

/// Appends a custom section with a name. It changes the digest of a component, and not what the component does.
pub fn add_custom_section(component: &mut Vec<u8>, name: &str, contents: &[u8]) {
    let mut section = Vec::new();
    push_length(&mut section, name.len());
    section.extend_from_slice(name.as_bytes());
    section.extend_from_slice(contents);
    component.push(CUSTOM);
    push_length(component, section.len());
    component.extend(section);
}

/// Appends a length in LEB128, as the binary format of components has them.
pub fn push_length(bytes: &mut Vec<u8>, mut length: usize) {
    loop {
        // The lowest seven bits.
        let low = u8::try_from(length & 0x7f).unwrap_or_default();
        length >>= 7;
        if length == 0 {
            bytes.push(low);
            return;
        }
        bytes.push(low | 0x80);
    }
}

fn check_size(contents: &[u8]) -> Result<(), DeclarationError> {
    if contents.len() <= MAX_SECTION_BYTES {
        return Ok(());
    }
    Err(DeclarationError::TooMany {
        what: "bytes of the declaration",
        count: contents.len(),
        limit: MAX_SECTION_BYTES,
    })
}

impl ModuleDeclaration {
    /// Reads the contents of a section, and checks them.
    ///
    /// # Errors
    /// Fails if the contents are too long or malformed, or break a rule of declarations.
    pub fn from_section(contents: &[u8]) -> Result<ModuleDeclaration, DeclarationError> {
        check_size(contents)?;
        let declaration: ModuleDeclaration = serde_json::from_slice(contents)
            .map_err(|error| DeclarationError::Section(error.to_string()))?;
        declaration.check()?;
        Ok(declaration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_the_binary_format() {
        for (length, bytes) in [
            (0, vec![0]),
            (127, vec![0x7f]),
            (128, vec![0x80, 1]),
            (624_485, vec![0xe5, 0x8e, 0x26]),
        ] {
            let mut written = Vec::new();
            push_length(&mut written, length);
            assert_eq!(written, bytes);
        }
    }

    #[test]
    fn section_that_is_too_long_or_malformed_is_refused() {
        let long = ModuleDeclaration::from_section(&vec![b' '; MAX_SECTION_BYTES + 1]);
        assert!(long.unwrap_err().to_string().contains("the limit is 65536"));
        let malformed = ModuleDeclaration::from_section(b"{\"name\": 1}");
        assert!(matches!(malformed, Err(DeclarationError::Section(_))));
        let unsafe_text = b"{\"name\": \"a\", \"description\": \"b\\n[[module]]\"}";
        assert!(ModuleDeclaration::from_section(unsafe_text).is_err());
    }
}
