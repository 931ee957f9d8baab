//! The elementary functions.

use crate::cases::Draw;
use crate::report::{Record, Shape};
use crate::scratch::Shelf;
use pocket_kernels::exp::{exp, exp_one, silu};
use pocket_kernels::{Job, Kernels, Lanes, WIDTH};

/// Vectors in a case.
const VECTORS: usize = 32;
/// Where something changes: the ends of the range, their neighbours, the ends of what is normal.
const EDGES: [f32; 20] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    -87.336_54,
    -87.336_55,
    -87.33,
    -88.0,
    -104.0,
    -1e30,
    88.72,
    88.722_84,
    88.73,
    127.5,
    1e30,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    1e-40,
    -1e-40,
];

#[derive(Clone, Copy)]
pub(crate) enum Function {
    Exp,
    Silu,
}

struct Elementary<'a> {
    function: Function,
    x: &'a [[f32; WIDTH]],
    out: &'a mut [[f32; WIDTH]],
}

impl Job for Elementary<'_> {
    /// The function of the first element alone.
    type Out = f32;

    #[inline(always)]
    fn run<L: Lanes>(self, l: L) -> f32 {
        for (x, out) in self.x.iter().zip(self.out) {
            let x = l.load(x);
            let y = match self.function {
                Function::Exp => exp(l, x),
                Function::Silu => silu(l, x),
            };
            l.store(y, out);
        }
        exp_one(l, self.x[0][0])
    }
}

pub(crate) fn run<K: Kernels>(
    function: Function,
    k: K,
    mut draw: Draw,
    mut shelf: Shelf<'_>,
    record: &mut Record<'_>,
) -> Shape {
    let [x, out] = core::array::from_fn(|_| shelf.take::<[f32; WIDTH]>(VECTORS));
    let row = x.as_flattened_mut();
    let data = draw.axis(&["kind", "edges", "range", "range"]);
    let kind = draw.kind();
    let first = draw.random.uniform() * 26.0;
    for (i, x) in row.iter_mut().enumerate() {
        *x = match data {
            "kind" => kind.float(i, &mut draw.random),
            "edges" => EDGES[i % EDGES.len()],
            _ => first - i as f32 * 0.173,
        };
    }
    out.as_flattened_mut().fill(f32::NAN);
    let one = k.enter(Elementary { function, x, out });
    record.floats(out.as_flattened());
    record.float(one);
    Shape::default().word("data", if data == "kind" { kind.name() } else { data })
}
