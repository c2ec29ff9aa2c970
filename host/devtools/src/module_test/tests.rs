//! Tests of the documented examples, and of recordings.
use super::*;

/// Returns the TOML blocks of a document.
fn examples(document: &str) -> Vec<String> {
    let blocks = document.split("```toml\n").skip(1);
    blocks
        .map(|block| block.split("```").next().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn the_examples_of_the_documentation_can_be_read() {
    let read =
        |text: &str| Cases::parse(Path::new("docs"), text).map_err(|error| error.to_string());
    let documented = examples(include_str!("../../../../docs/src/modules/module-tests.md"));
    assert_eq!(documented.len(), 4, "one, and one for each kind of role");
    for text in documented {
        assert_eq!(read(&text).map(|cases| cases.len()), Ok(1), "{text}");
    }
    let first_module = examples(include_str!("../../../../docs/src/modules/first-module.md"));
    let own: Vec<&String> = first_module
        .iter()
        .filter(|text| text.contains("[[case]]"))
        .collect();
    assert!(
        own.len() == 1 && own.iter().all(|text| read(text).is_ok()),
        "{own:?}"
    );
}

const RECORDED: &str = r#"{"code":{"number":-3001,"name":null},"source":"solver:3","range":"PMIX_RANGE_SESSION","infos":[{"key":"pmix.evproc","type":"PMIX_PROC","value":"solver:PMIX_RANK_WILDCARD"},{"key":"site.rank","type":"PMIX_PROC_RANK","value":"7"},{"key":"site.code","type":"PMIX_STATUS","value":"PMIX_ERR_PROC_ABORTED (-7)"},{"key":"site.range","type":"PMIX_DATA_RANGE","value":"PMIX_RANGE_LOCAL"},{"key":"site.nan","type":"PMIX_DOUBLE","value":null},{"key":"site.blob","type":"PMIX_BYTE_OBJECT","value":"3 bytes"},{"key":"pmix.evaffected","type":"PMIX_DATA_ARRAY","value":["solver:0","other:PMIX_RANK_WILDCARD"]},{"key":"site.texts","type":"PMIX_DATA_ARRAY","value":["a","b"]},{"key":"site.tree","type":"PMIX_DATA_ARRAY","value":[{"key":"site.leaf","type":"PMIX_UINT64","value":18446744073709551615}]}],"chains":[{"owner":"site","results":[{"handler":"first","status":{"number":-331,"name":"x"},"infos":[{"key":"first.seen","type":"PMIX_BOOL","value":true}]},{"handler":"own","status":{"number":-334,"name":"x"},"infos":[]}]}]}
"#;

#[test]
fn recorded_event_becomes_case_with_note_on_lost_parts() {
    let recorded = recording::cases(Path::new("night"), RECORDED, "own").unwrap();
    assert_eq!(
        recorded.left_out,
        ["line 1: site.blob of type PMIX_BYTE_OBJECT"]
    );
    let text = recorded.cases.to_string();
    let cases = Cases::parse(Path::new("night"), &text).unwrap();
    let case::CaseInput::Event { event, steps, .. } = &cases.case[0].subject else {
        panic!("{text}")
    };
    let lines: Vec<String> = event.infos.iter().map(case_format::info_line).collect();
    assert_eq!(
        lines,
        [
            "PMIX_EVENT_AFFECTED_PROC=solver:*",
            "site.rank:rank=7",
            "site.code:status=PMIX_ERR_PROC_ABORTED",
            "site.range:range=local",
            "site.nan:double=NaN",
            "{ key = \"PMIX_EVENT_AFFECTED_PROCS\", type = \"proc\", values = [\"solver:0\", \"other:*\"] }",
            "{ key = \"site.texts\", type = \"string\", values = [\"a\", \"b\"] }",
            "{ key = \"site.tree\", infos = [\"site.leaf=18446744073709551615\"] }",
        ]
    );
    assert_eq!((steps.len(), &*steps[0].name), (1, "first"));
    assert_eq!(
        cases.case[0]
            .expect
            .as_ref()
            .and_then(|expect| expect.status.as_ref())
            .map(|code| code.0.0),
        Some(-334)
    );
    let other = recording::cases(Path::new("night"), RECORDED, "other")
        .unwrap()
        .cases
        .to_string();
    assert!(
        !other.contains("expect") && !other.contains("steps"),
        "{other}"
    );
}

/// Converts TOML to JSON as editors do: times are texts.
fn json_of(value: &toml::Value) -> serde_json::Value {
    match value {
        toml::Value::Datetime(time) => time.to_string().into(),
        toml::Value::Array(items) => items.iter().map(json_of).collect(),
        toml::Value::Table(table) => {
            let pairs = table
                .iter()
                .map(|(key, value)| (key.clone(), json_of(value)));
            serde_json::Value::Object(pairs.collect())
        }
        other => serde_json::to_value(other).unwrap(),
    }
}

#[test]
fn cases_of_shipped_modules_and_documents_fit_the_schema() {
    let validator = jsonschema::draft7::new(&schema()).unwrap();
    let errors = |text: &str| -> Vec<String> {
        let table: toml::Table = text.parse().unwrap();
        let document = json_of(&toml::Value::Table(table));
        let found = validator.iter_errors(&document);
        found
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect()
    };
    let mut texts = examples(include_str!("../../../../docs/src/modules/module-tests.md"));
    let guests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests");
    for kind in ["channels", "handlers", "policies"] {
        for project in std::fs::read_dir(guests.join(kind)).unwrap() {
            let tests = project.unwrap().path().join("tests");
            let files = std::fs::read_dir(tests).into_iter().flatten();
            texts.extend(files.filter_map(|file| {
                let file = file.unwrap().path();
                let is_cases = file.extension().is_some_and(|of| of == "toml");
                is_cases.then(|| std::fs::read_to_string(file).unwrap())
            }));
        }
    }
    assert!(texts.len() > 10, "{}", texts.len());
    for text in &texts {
        assert_eq!(errors(text), [""; 0], "{text}");
    }
    let wrong = "[[case]]\nname = \"a\"\nevent = { codes = -1 }\nexpect = { called = 1 }";
    let told = errors(wrong);
    let places: Vec<_> = told
        .iter()
        .filter_map(|error| error.split(':').next())
        .collect();
    assert_eq!(places, ["/case/0/event", "/case/0/expect"], "{told:?}");
}
