//! Passes operations on to the instruction set that a richer one contains.

/// Methods of a `Lanes` that are those of `self.0`, by their signatures.
macro_rules! forward {
    ($($name:ident($($arg:ident: $t:ty),*) -> $out:ty;)*) => {
        $(
            #[inline(always)]
            fn $name(self, $($arg: $t),*) -> $out {
                self.0.$name($($arg),*)
            }
        )*
    };
}

/// Everything but the products of codes and bytes.
macro_rules! forward_all_but_products {
    () => {
        $crate::forward::forward! {
            splat(x: f32) -> Self::F;
            load(x: &[f32; pocket_kernels::WIDTH]) -> Self::F;
            store(x: Self::F, out: &mut [f32; pocket_kernels::WIDTH]) -> ();
            add(a: Self::F, b: Self::F) -> Self::F;
            sub(a: Self::F, b: Self::F) -> Self::F;
            mul(a: Self::F, b: Self::F) -> Self::F;
            div(a: Self::F, b: Self::F) -> Self::F;
            fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F;
            max(a: Self::F, b: Self::F) -> Self::F;
            min(a: Self::F, b: Self::F) -> Self::F;
            keep_at_least(value: Self::F, x: Self::F, limit: Self::F) -> Self::F;
            splat_i(x: i32) -> Self::I;
            add_i(a: Self::I, b: Self::I) -> Self::I;
            sub_i(a: Self::I, b: Self::I) -> Self::I;
            max_i(a: Self::I, b: Self::I) -> Self::I;
            reduce_add_i(a: Self::I) -> i32;
            reduce_max_i(a: Self::I) -> i32;
            abs_bits(x: Self::F) -> Self::I;
            round_i(x: Self::F) -> Self::I;
            to_f(x: Self::I) -> Self::F;
            shift_exponent(x: Self::F, n: Self::I) -> Self::F;
            load_f16(x: &[u16; pocket_kernels::WIDTH]) -> Self::F;
            store_f16(x: Self::F, out: &mut [u16; pocket_kernels::WIDTH]) -> ();
            load_i8(x: &[i8; pocket_kernels::WIDTH]) -> Self::I;
            store_i8(x: Self::I, out: &mut [i8; pocket_kernels::WIDTH]) -> ();
            unpack(chunk: &[u8; 64]) -> [Self::Codes; 2];
            store_codes(codes: Self::Codes, out: &mut [u8; 64]) -> ();
            load_codes(bytes: &[u8; 64]) -> Self::Codes;
            bytes(chunk: &[u8; 64]) -> Self::Bytes;
        }
    };
}

pub(crate) use {forward, forward_all_but_products};
