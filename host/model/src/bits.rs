//! Serialization of floating-point numbers as their bits, for records. Every number is restored
//! exactly, any NaN included.
macro_rules! bits {
    ($module:ident, $float:ty, $bits:ty) => {
        pub(crate) mod $module {
            use serde::{Deserialize, Deserializer, Serialize, Serializer};

            pub(crate) fn serialize<S: Serializer>(
                number: &$float,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                number.to_bits().serialize(serializer)
            }

            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
                deserializer: D,
            ) -> Result<$float, D::Error> {
                <$bits>::deserialize(deserializer).map(<$float>::from_bits)
            }
        }
    };
}

bits!(single, f32, u32);
bits!(double, f64, u64);
