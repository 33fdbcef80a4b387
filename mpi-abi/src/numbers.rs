//! Predefined handles of an ABI that says them by numbers.

/// Functions, since another ABI knows them only once MPI is loaded.
macro_rules! predefined {
    ($($name:ident: $kind:ident = $number:literal;)*) => {
        $(
            #[inline]
            pub const fn $name() -> $kind {
                $kind($number)
            }
        )*
    };
}
