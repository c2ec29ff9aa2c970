//! First setting in which what a NATS server has differs from what a cluster needs.

/// Setting that is not as it should be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettingDifference {
    /// Name in the configuration of a stream or consumer.
    pub setting: &'static str,
    /// Value that was found.
    pub value: String,
    /// Value that a cluster needs.
    pub expected: String,
}

/// Compares the named fields of two configurations, and gives the first difference.
macro_rules! first_difference {
    ($found:expr, $expected:expr, $($field:ident),+ $(,)?) => { 'compared: {
        $(
            if $found.$field != $expected.$field {
                break 'compared Some($crate::difference::SettingDifference {
                    setting: stringify!($field),
                    value: format!("{:?}", $found.$field),
                    expected: format!("{:?}", $expected.$field),
                });
            }
        )+
        None
    } };
}
pub(crate) use first_difference;
