//! The datatypes that have a name.

use crate::{MPI_DOUBLE, MPI_Datatype, MPI_UINT8_T, MPI_UINT64_T};

pub const MPI_CHAR: MPI_Datatype = MPI_Datatype(0x4c00_0101);
pub const MPI_SIGNED_CHAR: MPI_Datatype = MPI_Datatype(0x4c00_0118);
pub const MPI_UNSIGNED_CHAR: MPI_Datatype = MPI_Datatype(0x4c00_0102);
pub const MPI_BYTE: MPI_Datatype = MPI_Datatype(0x4c00_010d);
pub const MPI_WCHAR: MPI_Datatype = MPI_Datatype(0x4c00_040e);
pub const MPI_SHORT: MPI_Datatype = MPI_Datatype(0x4c00_0203);
pub const MPI_UNSIGNED_SHORT: MPI_Datatype = MPI_Datatype(0x4c00_0204);
pub const MPI_INT: MPI_Datatype = MPI_Datatype(0x4c00_0405);
pub const MPI_UNSIGNED: MPI_Datatype = MPI_Datatype(0x4c00_0406);
pub const MPI_LONG: MPI_Datatype = MPI_Datatype(0x4c00_0807);
pub const MPI_UNSIGNED_LONG: MPI_Datatype = MPI_Datatype(0x4c00_0808);
pub const MPI_LONG_LONG_INT: MPI_Datatype = MPI_Datatype(0x4c00_0809);
pub const MPI_UNSIGNED_LONG_LONG: MPI_Datatype = MPI_Datatype(0x4c00_0819);
pub const MPI_FLOAT: MPI_Datatype = MPI_Datatype(0x4c00_040a);
pub const MPI_LONG_DOUBLE: MPI_Datatype = MPI_Datatype(0x4c00_100c);
pub const MPI_PACKED: MPI_Datatype = MPI_Datatype(0x4c00_010f);
pub const MPI_FLOAT_INT: MPI_Datatype = MPI_Datatype(-0x7400_0000);
pub const MPI_DOUBLE_INT: MPI_Datatype = MPI_Datatype(-0x73ff_ffff);
pub const MPI_LONG_INT: MPI_Datatype = MPI_Datatype(-0x73ff_fffe);
pub const MPI_SHORT_INT: MPI_Datatype = MPI_Datatype(-0x73ff_fffd);
pub const MPI_2INT: MPI_Datatype = MPI_Datatype(0x4c00_0816);
pub const MPI_LONG_DOUBLE_INT: MPI_Datatype = MPI_Datatype(-0x73ff_fffc);
pub const MPI_INT8_T: MPI_Datatype = MPI_Datatype(0x4c00_0137);
pub const MPI_INT16_T: MPI_Datatype = MPI_Datatype(0x4c00_0238);
pub const MPI_INT32_T: MPI_Datatype = MPI_Datatype(0x4c00_0439);
pub const MPI_INT64_T: MPI_Datatype = MPI_Datatype(0x4c00_083a);
pub const MPI_UINT16_T: MPI_Datatype = MPI_Datatype(0x4c00_023c);
pub const MPI_UINT32_T: MPI_Datatype = MPI_Datatype(0x4c00_043d);
pub const MPI_C_BOOL: MPI_Datatype = MPI_Datatype(0x4c00_013f);
pub const MPI_C_FLOAT_COMPLEX: MPI_Datatype = MPI_Datatype(0x4c00_0840);
pub const MPI_C_DOUBLE_COMPLEX: MPI_Datatype = MPI_Datatype(0x4c00_1041);
pub const MPI_C_LONG_DOUBLE_COMPLEX: MPI_Datatype = MPI_Datatype(0x4c00_2042);
pub const MPI_AINT: MPI_Datatype = MPI_Datatype(0x4c00_0843);
pub const MPI_OFFSET: MPI_Datatype = MPI_Datatype(0x4c00_0844);
pub const MPI_COUNT: MPI_Datatype = MPI_Datatype(0x4c00_0845);
pub const MPI_COMPLEX: MPI_Datatype = MPI_Datatype(0x4c00_081e);
pub const MPI_DOUBLE_COMPLEX: MPI_Datatype = MPI_Datatype(0x4c00_1022);
pub const MPI_LOGICAL: MPI_Datatype = MPI_Datatype(0x4c00_041d);
pub const MPI_REAL: MPI_Datatype = MPI_Datatype(0x4c00_041c);
pub const MPI_DOUBLE_PRECISION: MPI_Datatype = MPI_Datatype(0x4c00_081f);
pub const MPI_INTEGER: MPI_Datatype = MPI_Datatype(0x4c00_041b);
pub const MPI_2INTEGER: MPI_Datatype = MPI_Datatype(0x4c00_0820);
pub const MPI_2REAL: MPI_Datatype = MPI_Datatype(0x4c00_0821);
pub const MPI_2DOUBLE_PRECISION: MPI_Datatype = MPI_Datatype(0x4c00_1023);
pub const MPI_CHARACTER: MPI_Datatype = MPI_Datatype(0x4c00_011a);
pub const MPI_REAL4: MPI_Datatype = MPI_Datatype(0x4c00_0427);
pub const MPI_REAL8: MPI_Datatype = MPI_Datatype(0x4c00_0829);
pub const MPI_INTEGER1: MPI_Datatype = MPI_Datatype(0x4c00_012d);
pub const MPI_INTEGER2: MPI_Datatype = MPI_Datatype(0x4c00_022f);
pub const MPI_INTEGER4: MPI_Datatype = MPI_Datatype(0x4c00_0430);
pub const MPI_INTEGER8: MPI_Datatype = MPI_Datatype(0x4c00_0831);
pub const MPI_COMPLEX8: MPI_Datatype = MPI_Datatype(0x4c00_0828);
pub const MPI_COMPLEX16: MPI_Datatype = MPI_Datatype(0x4c00_102a);
pub const MPI_CXX_BOOL: MPI_Datatype = MPI_Datatype(0x4c00_0133);
pub const MPI_CXX_FLOAT_COMPLEX: MPI_Datatype = MPI_Datatype(0x4c00_0834);
pub const MPI_CXX_DOUBLE_COMPLEX: MPI_Datatype = MPI_Datatype(0x4c00_1035);
pub const MPI_CXX_LONG_DOUBLE_COMPLEX: MPI_Datatype = MPI_Datatype(0x4c00_2036);

/// All of them. An MPI without Fortran has its types all the same.
pub const PREDEFINED: [MPI_Datatype; 60] = [
    MPI_CHAR,
    MPI_SIGNED_CHAR,
    MPI_UNSIGNED_CHAR,
    MPI_BYTE,
    MPI_WCHAR,
    MPI_SHORT,
    MPI_UNSIGNED_SHORT,
    MPI_INT,
    MPI_UNSIGNED,
    MPI_LONG,
    MPI_UNSIGNED_LONG,
    MPI_LONG_LONG_INT,
    MPI_UNSIGNED_LONG_LONG,
    MPI_FLOAT,
    MPI_DOUBLE,
    MPI_LONG_DOUBLE,
    MPI_PACKED,
    MPI_FLOAT_INT,
    MPI_DOUBLE_INT,
    MPI_LONG_INT,
    MPI_SHORT_INT,
    MPI_2INT,
    MPI_LONG_DOUBLE_INT,
    MPI_INT8_T,
    MPI_INT16_T,
    MPI_INT32_T,
    MPI_INT64_T,
    MPI_UINT8_T,
    MPI_UINT16_T,
    MPI_UINT32_T,
    MPI_UINT64_T,
    MPI_C_BOOL,
    MPI_C_FLOAT_COMPLEX,
    MPI_C_DOUBLE_COMPLEX,
    MPI_C_LONG_DOUBLE_COMPLEX,
    MPI_AINT,
    MPI_OFFSET,
    MPI_COUNT,
    MPI_COMPLEX,
    MPI_DOUBLE_COMPLEX,
    MPI_LOGICAL,
    MPI_REAL,
    MPI_DOUBLE_PRECISION,
    MPI_INTEGER,
    MPI_2INTEGER,
    MPI_2REAL,
    MPI_2DOUBLE_PRECISION,
    MPI_CHARACTER,
    MPI_REAL4,
    MPI_REAL8,
    MPI_INTEGER1,
    MPI_INTEGER2,
    MPI_INTEGER4,
    MPI_INTEGER8,
    MPI_COMPLEX8,
    MPI_COMPLEX16,
    MPI_CXX_BOOL,
    MPI_CXX_FLOAT_COMPLEX,
    MPI_CXX_DOUBLE_COMPLEX,
    MPI_CXX_LONG_DOUBLE_COMPLEX,
];
