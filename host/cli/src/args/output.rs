//! Option for the format of what a command prints.
use clap::{
    Args as ClapArgs,
    builder::{PossibleValuesParser, TypedValueParser},
};
use std::marker::PhantomData;

/// Format of what a command prints.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutputFormat {
    /// For people.
    Text,
    /// For people, with more columns.
    Wide,
    /// Names alone, one a line.
    Name,
    /// For programs.
    Data(DataFormat),
}

/// Format for programs. Both have the same values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataFormat {
    Json,
    Yaml,
}

impl OutputFormat {
    const ALL: [OutputFormat; 5] = [
        OutputFormat::Text,
        OutputFormat::Wide,
        OutputFormat::Name,
        OutputFormat::Data(DataFormat::Json),
        OutputFormat::Data(DataFormat::Yaml),
    ];

    fn name(self) -> &'static str {
        match self {
            OutputFormat::Text => "text",
            OutputFormat::Wide => "wide",
            OutputFormat::Name => "name",
            OutputFormat::Data(DataFormat::Json) => "json",
            OutputFormat::Data(DataFormat::Yaml) => "yaml",
        }
    }

    fn from_name(name: &str) -> Result<OutputFormat, String> {
        let found = OutputFormat::ALL.into_iter().find(|of| of.name() == name);
        found.ok_or_else(|| format!("there is no format {name:?}"))
    }
}

/// Formats of a command.
pub trait FormatSet: Clone + Send + Sync + 'static {
    /// The formats, the default first.
    const FORMATS: &'static [OutputFormat];
    /// Help text of the option.
    const HELP: &'static str;
}

/// Formats of commands that print facts.
#[derive(Clone, Debug)]
pub struct FactFormats;

impl FormatSet for FactFormats {
    const FORMATS: &'static [OutputFormat] = &[
        OutputFormat::Text,
        OutputFormat::Data(DataFormat::Json),
        OutputFormat::Data(DataFormat::Yaml),
    ];
    const HELP: &'static str = "Print in FORMAT";
}

/// Formats of commands that print several results, one after another.
#[derive(Clone, Debug)]
pub struct StreamFormats;

impl FormatSet for StreamFormats {
    const FORMATS: &'static [OutputFormat] = FactFormats::FORMATS;
    const HELP: &'static str =
        "Print in FORMAT; json prints one line for each result, yaml one document";
}

/// Formats of commands that print lists.
#[derive(Clone, Debug)]
pub struct ListFormats;

impl FormatSet for ListFormats {
    const FORMATS: &'static [OutputFormat] = &[
        OutputFormat::Text,
        OutputFormat::Name,
        OutputFormat::Data(DataFormat::Json),
        OutputFormat::Data(DataFormat::Yaml),
    ];
    const HELP: &'static str = "Print in FORMAT; name prints one name a line";
}

/// Formats of commands that print tables with optional columns.
#[derive(Clone, Debug)]
pub struct TableFormats;

impl FormatSet for TableFormats {
    const FORMATS: &'static [OutputFormat] = &OutputFormat::ALL;
    const HELP: &'static str =
        "Print in FORMAT; wide has more columns, name prints one name a line";
}

/// Formats of commands that print a table of many records.
#[derive(Clone, Debug)]
pub struct RecordFormats;

impl FormatSet for RecordFormats {
    const FORMATS: &'static [OutputFormat] = TableFormats::FORMATS;
    const HELP: &'static str = "Print in FORMAT; wide has more columns, name prints one number a line, json prints one line for each record, yaml one document";
}

/// Option that selects the format of the output.
#[derive(ClapArgs, Clone, Debug)]
pub struct OutputArgs<S: FormatSet> {
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = parser::<S>(), help = S::HELP)]
    pub output: OutputFormat,
    #[arg(skip)]
    formats: PhantomData<S>,
}

/// Returns the parser of the formats in a set.
fn parser<S: FormatSet>() -> impl TypedValueParser<Value = OutputFormat> {
    PossibleValuesParser::new(S::FORMATS.iter().map(|format| format.name()))
        .try_map(|name| OutputFormat::from_name(&name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, FromArgMatches};

    fn parsed<S: FormatSet>(words: &[&str]) -> Result<OutputFormat, String> {
        let command = OutputArgs::<S>::augment_args(Command::new("peal").no_binary_name(true));
        let matches = command
            .try_get_matches_from(words)
            .map_err(|error| error.to_string())?;
        let args = OutputArgs::<S>::from_arg_matches(&matches).unwrap();
        Ok(args.output)
    }

    #[test]
    fn format_outside_of_the_set_is_refused_with_the_set() {
        assert_eq!(parsed::<FactFormats>(&[]), Ok(OutputFormat::Text));
        assert_eq!(
            parsed::<FactFormats>(&["-oyaml"]),
            Ok(OutputFormat::Data(DataFormat::Yaml))
        );
        assert_eq!(
            parsed::<TableFormats>(&["--output", "wide"]),
            Ok(OutputFormat::Wide)
        );
        let error = parsed::<ListFormats>(&["-o", "wide"]).unwrap_err();
        assert!(
            error.contains("possible values: text, name, json, yaml"),
            "{error}"
        );
    }
}
