//! Functions that need no server: texts of numbers, lists of strings, lists of infos, construction,
//! destruction, loading and copying of structures, packing.
//!
//! | files | functions |
//! |---|---|
//! | [`strings`], [`status`], [`attributes`] | texts and names of numbers |
//! | [`keys`], [`argv`], [`environment`] | keys, namespaces, procs; lists of strings |
//! | [`families`], [`records`], [`data_array`] | construction, destruction and loading |
//! | [`value`], [`number`], [`size`], [`compare`] | values |
//! | [`info`], [`info_list`] | infos and lists of them |
//! | [`buffer`], [`pack`], [`compress`] | buffers, their contents, compression |
//! | [`print`] | values and structures as text |
//! | [`regex`], [`cpuset`] | regular expressions, cpusets, localities |
//! | [`topology`] | topology, processors of this process, distances of devices |
//! | [`frameworks`] | data symbols |

pub mod argv;
pub mod attributes;
pub mod buffer;
pub mod compare;
pub mod compress;
pub mod cpuset;
pub mod data_array;
mod element_texts;
pub mod environment;
pub mod families;
pub mod frameworks;
pub mod info;
pub mod info_list;
mod interned;
pub mod keys;
pub mod number;
mod numbered_names;
pub mod pack;
mod packed_expressions;
mod packed_stats;
pub mod print;
pub mod records;
pub mod regex;
pub mod size;
mod stats_texts;
pub mod status;
mod status_texts;
pub mod strings;
pub mod topology;
pub mod value;

#[cfg(test)]
mod stock;
