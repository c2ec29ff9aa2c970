//! Texts of sets of bits.
use peal_model::names::number;

/// Returns the names of the bits that are set, joined by colons.
pub(super) fn bits(set: u64, names: &[(u64, &str)]) -> String {
    let names = names
        .iter()
        .filter(|entry| set & entry.0 != 0)
        .map(|entry| entry.1);
    names.collect::<Vec<&str>>().join(":")
}

/// Returns the text of a locality.
pub(super) fn locality(set: u16) -> String {
    const NAMES: &[(u64, &str)] = &[
        (number::PMIX_LOCALITY_SHARE_HWTHREAD, "HWTHREAD"),
        (number::PMIX_LOCALITY_SHARE_CORE, "CORE"),
        (number::PMIX_LOCALITY_SHARE_L1CACHE, "L1"),
        (number::PMIX_LOCALITY_SHARE_L2CACHE, "L2"),
        (number::PMIX_LOCALITY_SHARE_L3CACHE, "L3"),
        (number::PMIX_LOCALITY_SHARE_PACKAGE, "PACKAGE"),
        (number::PMIX_LOCALITY_SHARE_NUMA, "NUMA"),
        (number::PMIX_LOCALITY_SHARE_NODE, "NODE"),
    ];
    match u64::from(set) {
        number::PMIX_LOCALITY_UNKNOWN => "UNKNOWN".to_owned(),
        number::PMIX_LOCALITY_NONLOCAL => "NONLOCAL".to_owned(),
        set => bits(set, NAMES),
    }
}

/// Returns the text of kinds of storage.
pub(super) fn medium(set: u64) -> String {
    const NAMES: &[(u64, &str)] = &[
        (number::PMIX_STORAGE_MEDIUM_TAPE, "TAPE"),
        (number::PMIX_STORAGE_MEDIUM_HDD, "HDD"),
        (number::PMIX_STORAGE_MEDIUM_SSD, "SSD"),
        (number::PMIX_STORAGE_MEDIUM_NVME, "NVME"),
        (number::PMIX_STORAGE_MEDIUM_PMEM, "PMEM"),
        (number::PMIX_STORAGE_MEDIUM_RAM, "RAM"),
    ];
    if set & number::PMIX_STORAGE_MEDIUM_UNKNOWN != 0 {
        return "UNKNOWN".to_owned();
    }
    bits(set, NAMES)
}

/// Bits of `pmix_storage_accessibility_t`.
pub(super) const ACCESSIBILITY: &[(u64, &str)] = &[
    (number::PMIX_STORAGE_ACCESSIBILITY_NODE, "NODE"),
    (number::PMIX_STORAGE_ACCESSIBILITY_SESSION, "SESSION"),
    (number::PMIX_STORAGE_ACCESSIBILITY_JOB, "JOB"),
    (number::PMIX_STORAGE_ACCESSIBILITY_RACK, "RACK"),
    (number::PMIX_STORAGE_ACCESSIBILITY_CLUSTER, "CLUSTER"),
    (number::PMIX_STORAGE_ACCESSIBILITY_REMOTE, "REMOTE"),
];

/// Bits of `pmix_storage_persistence_t`.
pub(super) const PERSISTENCE: &[(u64, &str)] = &[
    (number::PMIX_STORAGE_PERSISTENCE_TEMPORARY, "TEMPORARY"),
    (number::PMIX_STORAGE_PERSISTENCE_NODE, "NODE"),
    (number::PMIX_STORAGE_PERSISTENCE_SESSION, "SESSION"),
    (number::PMIX_STORAGE_PERSISTENCE_JOB, "JOB"),
    (number::PMIX_STORAGE_PERSISTENCE_SCRATCH, "SCRATCH"),
    (number::PMIX_STORAGE_PERSISTENCE_PROJECT, "PROJECT"),
    (number::PMIX_STORAGE_PERSISTENCE_ARCHIVE, "ARCHIVE"),
];

/// Bits of `pmix_storage_access_type_t`.
pub(super) const ACCESS_TYPES: &[(u64, &str)] = &[
    (number::PMIX_STORAGE_ACCESS_RD, "READ"),
    (number::PMIX_STORAGE_ACCESS_WR, "WRITE"),
];
