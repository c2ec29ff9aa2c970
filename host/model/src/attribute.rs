//! Look-up of the Standard's attributes, and the types of their values.
use crate::{
    DataType, data_type as dt,
    names::{ATTRIBUTES, Attribute},
};

impl Attribute {
    /// Returns the attribute of the Standard with a key string.
    pub fn of_key(key: &str) -> Option<&'static Attribute> {
        ATTRIBUTES.iter().find(|attribute| attribute.key == key)
    }

    /// Returns the type of the value; undefined if it varies.
    pub fn data_type(&self) -> DataType {
        match self.c_type {
            "char*" => dt::PMIX_STRING,
            "bool" => dt::PMIX_BOOL,
            "int" => dt::PMIX_INT,
            "int32_t" => dt::PMIX_INT32,
            "uint16_t" => dt::PMIX_UINT16,
            "uint32_t" => dt::PMIX_UINT32,
            "uint64_t" => dt::PMIX_UINT64,
            "size_t" => dt::PMIX_SIZE,
            "pid_t" => dt::PMIX_PID,
            "float" => dt::PMIX_FLOAT,
            "double" => dt::PMIX_DOUBLE,
            "time_t" => dt::PMIX_TIME,
            "struct timeval" => dt::PMIX_TIMEVAL,
            "pmix_status_t" => dt::PMIX_STATUS,
            "pmix_proc_t*" => dt::PMIX_PROC,
            "pmix_rank_t" => dt::PMIX_PROC_RANK,
            "pmix_data_array_t*" => dt::PMIX_DATA_ARRAY,
            "pmix_byte_object_t" => dt::PMIX_BYTE_OBJECT,
            "pmix_envar_t*" => dt::PMIX_ENVAR,
            "pmix_data_range_t" => dt::PMIX_DATA_RANGE,
            "pmix_persistence_t" => dt::PMIX_PERSIST,
            "pmix_scope_t" => dt::PMIX_SCOPE,
            // The registry also has types of C that no value can have, such as pointers.
            _ => dt::PMIX_UNDEF,
        }
    }
}
