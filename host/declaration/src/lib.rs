//! Declarations of modules: purpose, settings with their types, and the usual `[[module]]`.
//!
//! ```text
//! peal-module.toml  the author writes the declaration (declaration.rs)
//!   section.rs        a build puts it into the component, as a custom section
//!   setting.rs        `peal config check` compares the settings of an admin with it
//!   module_file.rs    `peal module add` writes the file of a module from it
//! ```
//!
//! A declaration comes from the author of a component, who is not trusted: all of it is bounded, and no
//! text in it can end a line.
mod declaration;
mod module_file;
mod section;
mod setting;

pub use declaration::{DeclarationError, ModuleDeclaration, UsualDeployment};
pub use module_file::{ModuleFile, SettingValues};
pub use section::{MAX_SECTION_BYTES, SECTION, add_custom_section, add_section, push_length};
pub use setting::{SettingDeclaration, SettingKind, SettingValue, WrongSetting};
