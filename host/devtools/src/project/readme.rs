//! README of a new project.
use super::SdkOrigin;
use peal_build::Language;
use peal_sandbox::Role;
use std::collections::BTreeSet;

/// Returns the command that tests the functions without a component; empty if there is none.
fn natively(language: Language) -> &'static str {
    match language {
        Language::Rust => "cargo test                       # your functions, natively\n",
        Language::Python => {
            "PYTHONPATH=LIBRARY python3 -m unittest   # your functions, in any Python\n"
        }
        Language::Go => "go test                          # your functions, natively\n",
        Language::C | Language::Cpp | Language::Js | Language::Ts => "",
    }
}

fn source(language: Language) -> &'static str {
    match language {
        Language::Rust => "src/lib.rs",
        Language::C => "module.c",
        Language::Cpp => "module.cpp",
        Language::Go => "module.go",
        Language::Python => "module.py",
        Language::Js => "module.js",
        Language::Ts => "module.ts",
    }
}

fn limits(language: Language) -> &'static str {
    match language {
        Language::Rust => "",
        Language::C => {
            "\nAll `.c` files of this directory are compiled. Memory that the SDK hands over is freed when the call returns.\n"
        }
        Language::Cpp => {
            "\nAll `.cpp` files of this directory are compiled, as C++23 without exceptions and RTTI. `clang-format -i module.cpp` formats them.\n"
        }
        Language::Go => {
            "\nAll integers are exact. There are no files, network, environment or arguments. `time.Now` stands still and `time.Sleep` ends \
             the call; `peal.Now` is the clock. `math/rand` gives the same row in every instance.\n"
        }
        Language::Python => {
            "\nAll integers are exact. There are no files, network, environment or threads. `random` gives the same row in every \
             instance: its seed is taken when the module is built.\n"
        }
        Language::Js => {
            "\nIntegers are exact to 2^53: larger ones of 64 bits arrive rounded, and are rounded when they are passed on. There are \
             neither timers, nor `fetch`, nor packages of Node.\n"
        }
        Language::Ts => {
            "\nThe build checks types by `tsconfig.json` and replaces them by blanks, so backtraces have the lines of the sources. Syntax that is \
             more than types, such as `enum`, is refused. Other files are imported with their extension: `import { x } from \"./x.ts\"`. \
             Integers are exact to 2^53: larger ones of 64 bits arrive rounded, and are rounded when they are passed on. There are \
             neither timers, nor `fetch`, nor packages of Node. `prettier --write module.ts`, which is among the tools, formats.\n"
        }
    }
}

/// Returns the configuration that an admin puts into `modules.d` beside the component.
pub fn table(name: &str, roles: &BTreeSet<Role>) -> String {
    let mut text = format!(
        "# For a site: copy this file and {name}.wasm into the directory modules.d beside the server's configuration.\n\
         [[module]]\nname = \"{name}\"\npath = \"{name}.wasm\"\n"
    );
    // The example of a log channel writes to standard error.
    if roles.contains(&Role::LogChannel) {
        text += "channels = [\"stderr\"]\nsinks = [\"stderr\"]\n";
    }
    let grants = if roles.contains(&Role::LogChannel) {
        "\"sink\""
    } else {
        ""
    };
    text + &format!(
        "grants = [{grants}]    # capabilities that it may use; `peal module inspect {name}.wasm` lists what it imports\n"
    )
}

pub fn text(name: &str, language: Language, roles: &BTreeSet<Role>, sdk: SdkOrigin<'_>) -> String {
    let library = match sdk {
        SdkOrigin::Copied => {
            "`sdk/` has the library that it uses, with the contract in `wit/`: those of the `peal` that made this project.".to_owned()
        }
        SdkOrigin::Installed(dir) => {
            format!("`{}` is the installed package of the library that it uses, with the contract in `wit/`.", dir.display())
        }
    };
    let names: Vec<&str> = roles.iter().map(|role| role.name()).collect();
    let run = if roles.contains(&Role::EventHandler) {
        format!("peal run --events --handler {name}.wasm -- PROGRAM   # shows its results\n")
    } else {
        String::new()
    };
    format!(
        "# {name}\n\nA module for Peal: {}. Its source is `{}`.\n\n```sh\n{}peal module build                # makes \
         {name}.wasm; names tools that are missing\npeal module test                 \
         # runs the cases of tests/*.toml\npeal module bench                # what a call \
         takes\npeal module inspect {name}.wasm  # what it does and asks \
         for\n{run}```\n{}\nTo deploy it at a site, without a restart of the server:\n\n\
         ```sh\ncp {name}.wasm {name}.toml ~/.config/peal/modules.d/   # root's: /etc/peal/modules.d\n\
         peal module list                 # running modules; `peal module reload` prints errors\n```\n\n\
         tests/README.md describes the format of cases. {library}\n",
        names.join(", "),
        source(language),
        natively(language).replace("LIBRARY", &sdk.library("python")),
        limits(language),
    )
}
