//! Defaults of settings that are more than a number, and units of amounts.
use peal_model::key;

/// Units of bytes.
pub(crate) const KIB: usize = 1 << 10;
pub(crate) const MIB: usize = 1 << 20;
pub(crate) const GIB: usize = 1 << 30;

/// Returns the keys of credentials and of encryption and network keys.
pub(crate) fn audit_secrets() -> Vec<String> {
    [
        key::PMIX_CREDENTIAL,
        key::PMIX_CRYPTO_KEY,
        key::PMIX_ALLOC_NETWORK_SEC_KEY,
    ]
    .map(|key| key.0.to_owned())
    .to_vec()
}

/// Returns the grants for modules of tenants: they give access to the tenant's own data only, and
/// to no output but the module's state.
pub(crate) fn tenant_grants() -> Vec<String> {
    [
        "logging",
        "clock",
        "notify",
        "registration",
        "state",
        "random",
        "wasi",
    ]
    .map(str::to_owned)
    .to_vec()
}
