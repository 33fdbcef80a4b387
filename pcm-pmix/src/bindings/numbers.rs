//! Numbers of PMIx: states, types of values, ranges. Must never have a line whose value is not a plain number: the test
//! reads this file.

/// What a function of PMIx returns: 0 is success, errors are negative.
pub type pmix_status_t = i32;
/// Number of a process in its namespace.
pub type pmix_rank_t = u32;
/// Which member of a value's union counts.
pub type pmix_data_type_t = u16;

pub const PMIX_SUCCESS: pmix_status_t = 0;
pub const PMIX_ERROR: pmix_status_t = -1;
pub const PMIX_ERR_PROC_ABORTED: pmix_status_t = -7;
pub const PMIX_ERR_TIMEOUT: pmix_status_t = -24;
pub const PMIX_ERR_UNREACH: pmix_status_t = -25;
pub const PMIX_ERR_BAD_PARAM: pmix_status_t = -27;
pub const PMIX_ERR_RESOURCE_BUSY: pmix_status_t = -28;
pub const PMIX_ERR_NOT_FOUND: pmix_status_t = -46;
pub const PMIX_ERR_NOT_SUPPORTED: pmix_status_t = -47;
pub const PMIX_ERR_DUPLICATE_KEY: pmix_status_t = -53;
pub const PMIX_ERR_LOST_CONNECTION: pmix_status_t = -61;
pub const PMIX_OPERATION_SUCCEEDED: pmix_status_t = -157;
pub const PMIX_ERR_PROC_TERM_WO_SYNC: pmix_status_t = -200;

pub const PMIX_RANK_WILDCARD: pmix_rank_t = 4294967294;

pub const PMIX_BOOL: pmix_data_type_t = 1;
pub const PMIX_BYTE: pmix_data_type_t = 2;
pub const PMIX_STRING: pmix_data_type_t = 3;
pub const PMIX_SIZE: pmix_data_type_t = 4;
pub const PMIX_PID: pmix_data_type_t = 5;
pub const PMIX_INT: pmix_data_type_t = 6;
pub const PMIX_INT8: pmix_data_type_t = 7;
pub const PMIX_INT16: pmix_data_type_t = 8;
pub const PMIX_INT32: pmix_data_type_t = 9;
pub const PMIX_INT64: pmix_data_type_t = 10;
pub const PMIX_UINT: pmix_data_type_t = 11;
pub const PMIX_UINT8: pmix_data_type_t = 12;
pub const PMIX_UINT16: pmix_data_type_t = 13;
pub const PMIX_UINT32: pmix_data_type_t = 14;
pub const PMIX_UINT64: pmix_data_type_t = 15;
pub const PMIX_FLOAT: pmix_data_type_t = 16;
pub const PMIX_DOUBLE: pmix_data_type_t = 17;
pub const PMIX_TIME: pmix_data_type_t = 19;
pub const PMIX_STATUS: pmix_data_type_t = 20;
pub const PMIX_PROC: pmix_data_type_t = 22;
pub const PMIX_INFO: pmix_data_type_t = 24;
pub const PMIX_BYTE_OBJECT: pmix_data_type_t = 27;
pub const PMIX_PERSIST: pmix_data_type_t = 30;
pub const PMIX_DATA_ARRAY: pmix_data_type_t = 39;
pub const PMIX_PROC_RANK: pmix_data_type_t = 40;
pub const PMIX_ENVAR: pmix_data_type_t = 46;

pub const PMIX_RANGE_SESSION: u8 = 4;
pub const PMIX_PERSIST_FIRST_READ: u8 = 1;
pub const PMIX_GROUP_CONSTRUCT: u32 = 0;
pub const PMIX_GROUP_DESTRUCT: u32 = 1;
