//! Which format every tensor gets and where it lies.

use pocket_kernels::weights::Format;
use pocket_runtime::image::{ALIGN, FORMAT_F32, Role, TensorRecord, roles};
use pocket_runtime::{Config, Group, Groups};

use super::architecture::{Architecture, tensor, tensor_name};
use super::error::PackError;
use super::matrix::{kind_of, pairs_agree};
use super::quantize::Quant;
use crate::gguf::{Gguf, Tensor};
use crate::printable::printable;

/// A tensor with its place in the image.
pub(super) struct Placed<'a> {
    pub(super) tensor: Tensor<'a>,
    pub(super) role: Role,
    pub(super) record: TensorRecord,
    /// Whether its groups have 64 columns.
    pub(super) wide: bool,
}

/// All tensors in the order in which a token reads them, and the configuration with its groups.
pub(super) struct Layout<'a> {
    pub(super) config: Config,
    pub(super) tensors: Vec<Placed<'a>>,
    pub(super) weight_bytes: u64,
}

impl<'a> Layout<'a> {
    /// Finds and checks every tensor, and gives it a format and a place.
    pub(super) fn new(gguf: &Gguf<'a>, architecture: &Architecture, target: Quant) -> Result<Self, PackError> {
        let mut config = architecture.config;
        let mut found = Vec::new();
        let (_, last) = roles(&config);
        let of_layers = (0..config.layers).flat_map(|layer| roles(&config).0.map(move |role| (layer, role)));
        for (layer, role) in of_layers.chain(last.map(|role| (0, role))) {
            let tensor = tensor(gguf, &tensor_name(layer, role))?;
            check_shape(&config, role, &tensor)?;
            found.push((tensor, layer, role));
        }
        check_all_used(gguf, &found)?;
        config.groups = groups(&found, target);
        let mut end = 0;
        let mut tensors = Vec::with_capacity(found.len());
        for (tensor, layer, role) in found {
            let placed = place(&config, tensor, (layer, role), target, &mut end);
            tensors.push(placed);
        }
        interleave(&mut tensors, Role::Gate, Role::Up);
        Ok(Self { config, tensors, weight_bytes: end })
    }
}

fn check_shape(config: &Config, role: Role, tensor: &Tensor<'_>) -> Result<(), PackError> {
    let wanted = config.wanted(role);
    // A vector is one row in a file.
    let shape = match wanted.group {
        Some(_) => [wanted.rows as usize, wanted.columns as usize],
        None => [1, wanted.rows as usize],
    };
    let found = [tensor.rows(), tensor.cols()];
    if found == shape { Ok(()) } else { Err(PackError::Shape { name: tensor.name.to_owned(), found, wanted: shape }) }
}

/// A tensor without a place would change what the model computes, so it must not be dropped in silence.
fn check_all_used(gguf: &Gguf<'_>, used: &[(Tensor<'_>, u32, Role)]) -> Result<(), PackError> {
    let names: std::collections::HashSet<&str> = used.iter().map(|(tensor, ..)| tensor.name).collect();
    let known = |name: &str| names.contains(name) || name == super::architecture::ROPE_FACTORS;
    match gguf.tensors().iter().find(|tensor| !known(tensor.name)) {
        Some(tensor) => Err(PackError::UnknownTensor {
            name: printable(tensor.name),
            architecture: gguf.require::<&str>("general.architecture")?.to_owned(),
        }),
        None => Ok(()),
    }
}

/// Groups of 64 where every matrix of a kind allows it without loss, of 32 elsewhere.
fn groups(found: &[(Tensor<'_>, u32, Role)], target: Quant) -> Groups {
    let group = |wanted: &[Role]| {
        let mut matrices = found.iter().filter(|(.., role)| wanted.contains(role));
        let wide = matrices.all(|(tensor, ..)| kind_of(tensor.kind, target).1 && pairs_agree(tensor));
        if wide { Group::G64 } else { Group::G32 }
    };
    let head = if found.iter().any(|(.., role)| *role == Role::Head) { Role::Head } else { Role::Embedding };
    Groups {
        qkv: group(&[Role::Query, Role::Key, Role::Value]),
        attention_output: group(&[Role::AttentionOutput]),
        gate_up: group(&[Role::Gate, Role::Up]),
        down: group(&[Role::Down]),
        head: group(&[head]),
    }
}

/// Places a tensor at the end of the weights.
fn place<'a>(
    config: &Config,
    tensor: Tensor<'a>,
    (layer, role): (u32, Role),
    target: Quant,
    end: &mut u64,
) -> Placed<'a> {
    let wanted = config.wanted(role);
    let apart = role == Role::Embedding && !config.tied;
    let wide = if apart { pairs_agree(&tensor) } else { wanted.group == Some(Group::G64) };
    let format = wanted.group.map(|_| kind_of(tensor.kind, target).0.format(wide));
    let record = TensorRecord {
        role: role as u32,
        layer,
        format: format.map_or(FORMAT_F32, |format| format as u32),
        rows: wanted.rows,
        columns: wanted.columns,
        reserved: 0,
        offset: *end,
        stride: format.map_or(0, |format: Format| format.row_group_bytes(wanted.columns as usize) as u64),
    };
    *end = (*end + record.data_bytes()).next_multiple_of(ALIGN as u64);
    Placed { tensor, role, record, wide }
}

/// Lets the row groups of two matrices of a layer alternate: they are read in one pass.
fn interleave(tensors: &mut [Placed<'_>], first: Role, second: Role) {
    for i in 1..tensors.len() {
        let (before, after) = tensors.split_at_mut(i);
        if let ([.., a], [b, ..]) = (before, after)
            && (a.role, b.role) == (first, second)
        {
            b.record.offset = a.record.offset + a.record.stride;
            let both = a.record.stride + b.record.stride;
            a.record.stride = both;
            b.record.stride = both;
        }
    }
}
