//! New project in TypeScript.
use super::{SdkOrigin, js};
use peal_sandbox::Role;
use std::collections::BTreeSet;

/// Settings of the compiler, for `peal module build` and for editors. Types are removed and not
/// compiled, so syntax that is more than types is refused.
const COMPILER: &str = r#"{
  "compilerOptions": {
    "target": "es2023",
    "lib": ["es2023"],
    "types": [],
    "module": "es2022",
    "moduleResolution": "bundler",
    "allowImportingTsExtensions": true,
    "verbatimModuleSyntax": true,
    "erasableSyntaxOnly": true,
    "strict": true,
    "noUncheckedIndexedAccess": true,
    "noEmit": true
  },
  "include": ["*.ts"]
}
"#;

/// Settings of prettier, which the sources follow.
const FORMAT: &str = "{ \"printWidth\": 120 }\n";

pub fn files(roles: &BTreeSet<Role>, sdk: SdkOrigin<'_>) -> Vec<(&'static str, String)> {
    let parts: Vec<&str> = roles
        .iter()
        .map(|role| template!("ts", ".txt", role))
        .collect();
    vec![
        ("module.ts", js::source(roles, "", &parts, sdk)),
        ("tsconfig.json", COMPILER.to_owned()),
        (".prettierrc", FORMAT.to_owned()),
    ]
}
