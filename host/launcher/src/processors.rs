//! Processors of this node and the units that contain them, as hwloc's XML describes them.
use peal_core::choice::ProcessorUnit;
use roxmltree::{Document, Node, ParsingOptions};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// Unit of hwloc that contains processors, in the order of the words of a locality.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Level {
    Package,
    L3Cache,
    L2Cache,
    L1Cache,
    Core,
    Processor,
    Numa,
}

impl Level {
    const ALL: [Level; 7] = [
        Level::Package,
        Level::L3Cache,
        Level::L2Cache,
        Level::L1Cache,
        Level::Core,
        Level::Processor,
        Level::Numa,
    ];

    /// Returns the type in hwloc's XML.
    fn hwloc_type(self) -> &'static str {
        match self {
            Level::Package => "Package",
            Level::L3Cache => "L3Cache",
            Level::L2Cache => "L2Cache",
            Level::L1Cache => "L1Cache",
            Level::Core => "Core",
            Level::Processor => "PU",
            Level::Numa => "NUMANode",
        }
    }

    /// Returns the letters in a locality.
    fn letters(self) -> &'static str {
        match self {
            Level::Package => "SK",
            Level::L3Cache => "L3",
            Level::L2Cache => "L2",
            Level::L1Cache => "L1",
            Level::Core => "CR",
            Level::Processor => "HT",
            Level::Numa => "NM",
        }
    }
}

impl From<ProcessorUnit> for Level {
    fn from(unit: ProcessorUnit) -> Level {
        match unit {
            ProcessorUnit::HardwareThread => Level::Processor,
            ProcessorUnit::Core => Level::Core,
            ProcessorUnit::L3Cache => Level::L3Cache,
            ProcessorUnit::Numa => Level::Numa,
            ProcessorUnit::Package => Level::Package,
        }
    }
}

/// Processor of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Processor {
    /// Number in the kernel.
    pub(crate) number: u32,
    /// Logical number of each unit that contains it.
    units: BTreeMap<Level, u32>,
}

impl Processor {
    /// Returns the number of the unit that contains the processor, if one of this kind does.
    pub(crate) fn unit(&self, unit: ProcessorUnit) -> Option<u32> {
        self.units.get(&unit.into()).copied()
    }
}

/// Processors of a node, in the order of the units that contain them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeProcessors {
    processors: Vec<Processor>,
}

/// Text that is no topology of a node.
#[derive(Debug, Error)]
pub enum ProcessorsError {
    /// The text is no XML.
    #[error("the topology is no XML: {0}")]
    Xml(#[from] roxmltree::Error),
    /// There is no processor in it, or none that may be used.
    #[error("the topology has no processor that this process may use")]
    Empty,
}

impl NodeProcessors {
    /// Reads a topology of hwloc 2, and keeps the processors of which `is_usable` returns true.
    ///
    /// # Errors
    ///
    /// Says why there are none.
    pub fn read(
        xml: &str,
        is_usable: impl Fn(u32) -> bool,
    ) -> Result<NodeProcessors, ProcessorsError> {
        let options = ParsingOptions {
            // hwloc names one, which is not read.
            allow_dtd: true,
            ..ParsingOptions::default()
        };
        let document = Document::parse_with_options(xml, options)?;
        let units: Vec<UnitElement<'_, '_>> = Level::ALL
            .into_iter()
            .flat_map(|level| {
                let nodes = document.descendants();
                let nodes = nodes.filter(move |node| is_of(node, level));
                (0..)
                    .zip(nodes)
                    .map(move |(index, node)| UnitElement { level, index, node })
            })
            .collect();
        let processors = document.descendants().filter_map(|node| {
            let number = node.attribute("os_index")?.parse().ok()?;
            let is_processor = is_of(&node, Level::Processor) && is_usable(number);
            is_processor.then(|| Processor {
                number,
                units: units
                    .iter()
                    .filter(|unit| unit.contains(node, number))
                    .map(|unit| (unit.level, unit.index))
                    .collect(),
            })
        });
        let processors: Vec<Processor> = processors.collect();
        if processors.is_empty() {
            return Err(ProcessorsError::Empty);
        }
        Ok(NodeProcessors { processors })
    }

    /// Returns the units of a kind in their order, with their processors.
    pub(crate) fn units(&self, unit: ProcessorUnit) -> BTreeMap<u32, Vec<&Processor>> {
        let mut units: BTreeMap<u32, Vec<&Processor>> = BTreeMap::new();
        for processor in &self.processors {
            if let Some(index) = processor.unit(unit) {
                units.entry(index).or_default().push(processor);
            }
        }
        units
    }

    /// Returns the units to which some processors belong, as PMIx writes them: `SK0:L30:CR0-1:HT0-3`.
    pub(crate) fn locality(&self, numbers: &BTreeSet<u32>) -> String {
        let of_level = |level: Level| {
            let used = self.processors.iter();
            let used = used.filter(|processor| numbers.contains(&processor.number));
            let indexes: BTreeSet<u32> = used
                .filter_map(|processor| processor.units.get(&level).copied())
                .collect();
            (!indexes.is_empty()).then(|| format!("{}{}", level.letters(), ranges(&indexes)))
        };
        let words: Vec<String> = Level::ALL.into_iter().filter_map(of_level).collect();
        words.join(":")
    }

    /// Returns a picture of the node as `mpirun` prints it: a bracket for each package, its cores with slashes
    /// between them, and a letter for each processor, which is B for these.
    pub(crate) fn picture(&self, numbers: &BTreeSet<u32>) -> String {
        let mut picture = String::new();
        let (mut package, mut core) = (None, None);
        for processor in &self.processors {
            let own_package = Some(processor.unit(ProcessorUnit::Package));
            let own_core = Some(processor.unit(ProcessorUnit::Core));
            if package != own_package {
                picture.push_str(if package.is_none() { "[" } else { "][" });
            } else if core != own_core {
                picture.push('/');
            }
            (package, core) = (own_package, own_core);
            let is_used = numbers.contains(&processor.number);
            picture.push(if is_used { 'B' } else { '.' });
        }
        picture.push(']');
        picture
    }
}

/// Element of the XML with its place among those of its level.
struct UnitElement<'a, 'input> {
    level: Level,
    index: u32,
    node: Node<'a, 'input>,
}

impl UnitElement<'_, '_> {
    fn contains(&self, processor: Node<'_, '_>, number: u32) -> bool {
        match self.level {
            // Memory is beside the processors that are near it.
            Level::Numa => {
                let cpuset = self.node.attribute("cpuset");
                cpuset.is_some_and(|cpuset| bitmap_contains(cpuset, number))
            }
            _ => processor
                .ancestors()
                .any(|above| above.id() == self.node.id()),
        }
    }
}

fn is_of(node: &Node<'_, '_>, level: Level) -> bool {
    node.has_tag_name("object") && node.attribute("type") == Some(level.hwloc_type())
}

/// Returns true if a bitmap of hwloc contains a number. It has words of 32 bits in hexadecimal digits, the
/// highest one first.
fn bitmap_contains(bitmap: &str, number: u32) -> bool {
    /// First word of a bitmap that contains all higher numbers.
    const INFINITE: &str = "0xf...f";
    let mut words = bitmap.rsplit(',');
    let word = usize::try_from(number / u32::BITS).map(|index| words.nth(index));
    match word {
        Ok(Some(INFINITE)) => true,
        Ok(Some(word)) => {
            let digits = word.strip_prefix("0x").unwrap_or(word);
            let bits = u32::from_str_radix(digits, 16).unwrap_or_default();
            bits & (1 << (number % u32::BITS)) != 0
        }
        _ => bitmap.starts_with(INFINITE),
    }
}

/// Returns numbers as ranges: `0-3,8`.
pub(crate) fn ranges(numbers: &BTreeSet<u32>) -> String {
    let numbers: Vec<u32> = numbers.iter().copied().collect();
    let follows = |first: &u32, second: &u32| first.checked_add(1) == Some(*second);
    let parts = numbers.chunk_by(follows).map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        run => run.iter().map(u32::to_string).collect(),
    });
    parts.collect::<Vec<String>>().join(",")
}

#[cfg(test)]
pub(crate) mod tests;
