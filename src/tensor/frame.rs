//! What inputs are beside their numbers: a call with inputs that are the same in all of it needs not ask for sizes again.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::targets::Targets;
use super::{CscPattern, CsrPattern, Inputs, Precision, Relation, Tensor, Value};
use crate::ty::{RelationKind, Signature};

/// The shapes, precisions, patterns, relations and sizes of inputs.
#[derive(Debug)]
pub(crate) struct Frame {
    values: Vec<(String, Vec<(Form, Precision)>)>,
    relations: Vec<(String, Arc<Relation>)>,
    maps: Vec<(String, Arc<Targets>)>,
    sizes: BTreeMap<String, i64>,
    /// How many values, relations and maps were given, those that nobody takes among them.
    given: [usize; 3],
}

/// What a tensor is beside its numbers.
#[derive(Debug)]
enum Form {
    Dense(Vec<usize>),
    Csr(Arc<CsrPattern>),
    Csc(Arc<CscPattern>),
    Coo(Arc<Relation>),
}

impl Form {
    fn of(tensor: &Tensor) -> Form {
        match tensor {
            Tensor::Dense(dense) => Form::Dense(dense.shape().to_vec()),
            Tensor::Csr(csr) => Form::Csr(csr.pattern().clone()),
            Tensor::Csc(csc) => Form::Csc(csc.pattern().clone()),
            Tensor::Coo(coo) => Form::Coo(coo.pattern().clone()),
        }
    }

    /// Whether a tensor has it: a pattern is the same if it is in the same place.
    fn is_that_of(&self, tensor: &Tensor) -> bool {
        match (self, tensor) {
            (Form::Dense(shape), Tensor::Dense(dense)) => shape == dense.shape(),
            (Form::Csr(pattern), Tensor::Csr(csr)) => Arc::ptr_eq(pattern, csr.pattern()),
            (Form::Csc(pattern), Tensor::Csc(csc)) => Arc::ptr_eq(pattern, csc.pattern()),
            (Form::Coo(pattern), Tensor::Coo(coo)) => Arc::ptr_eq(pattern, coo.pattern()),
            _ => false,
        }
    }
}

impl Frame {
    /// That of inputs that a program was bound to; nothing where a parameter is given component by component.
    pub fn of(signature: &Signature, inputs: &Inputs) -> Option<Frame> {
        let forms = |value: &Value| value.leaves().iter().map(|leaf| (Form::of(leaf), leaf.precision())).collect();
        let values = signature.params.values().map(|param| Some((param.name.clone(), forms(inputs.get(&param.name)?))));
        let (mut relations, mut maps) = (Vec::new(), Vec::new());
        for relation in signature.relations.values() {
            match (relation.kind, inputs.relations.get(&relation.name), inputs.maps.get(&relation.name)) {
                (RelationKind::Pattern(_) | RelationKind::Projection(..), ..) => {}
                (_, Some(tuples), _) => relations.push((relation.name.clone(), tuples.clone())),
                (_, None, Some(targets)) => maps.push((relation.name.clone(), targets.clone())),
                (_, None, None) => return None,
            }
        }
        let sizes = inputs.sizes.clone();
        Some(Frame { values: values.collect::<Option<_>>()?, relations, maps, sizes, given: given(inputs) })
    }

    /// The values of the parameters, in their order, of inputs that are the same beside their numbers.
    pub fn values<'i>(&self, inputs: &'i Inputs) -> Option<Vec<&'i Value>> {
        let relations = self
            .relations
            .iter()
            .all(|(name, tuples)| inputs.relations.get(name).is_some_and(|given| Arc::ptr_eq(given, tuples)));
        let maps = self
            .maps
            .iter()
            .all(|(name, targets)| inputs.maps.get(name).is_some_and(|given| Arc::ptr_eq(given, targets)));
        let others = inputs.malformed.is_empty() && given(inputs) == self.given && inputs.sizes == self.sizes;
        if !relations || !maps || !others {
            return None;
        }
        let value = |(name, forms): &(String, Vec<(Form, Precision)>)| {
            let value = inputs.get(name)?;
            let leaves = value.leaves();
            let is_same = |((form, precision), leaf): (&(Form, Precision), &Arc<Tensor>)| {
                form.is_that_of(leaf) && *precision == leaf.precision()
            };
            (forms.len() == leaves.len() && forms.iter().zip(leaves).all(is_same)).then_some(value)
        };
        self.values.iter().map(value).collect()
    }
}

fn given(inputs: &Inputs) -> [usize; 3] {
    [inputs.values.len(), inputs.relations.len(), inputs.maps.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Function;
    use crate::tensor::Csr;

    #[test]
    fn inputs_that_differ_in_numbers_alone() {
        let text = "param A : csr [n, m] real\nparam x : [m] real\nparam p : (real, [k] real)\nmap to : [m] -> [k]\nsize T\n0.0";
        let function = Function::parse(text).expect("it compiles");
        let csr = |indices| Csr::new(2, 3, vec![0, 1, 2], indices, vec![1.0, 2.0]).expect("it is one");
        let mut inputs = Inputs::new();
        inputs.value("A", csr(vec![0, 2])).value("x", vec![1.0, 2.0, 3.0]).map("to", &[3], vec![0, 1, 1]).size("T", 4);
        inputs.value("p", Value::pair(Value::scalar(1.0), Value::vector(vec![1.0, 2.0])));
        let signature = &function.tensor_ssa().signature;
        let frame = Frame::of(signature, &inputs).expect("all is given");
        let is_same = |change: &dyn Fn(&mut Inputs) -> &mut Inputs| {
            let mut other = inputs.clone();
            change(&mut other);
            frame.values(&other).map(|values| values.len())
        };
        assert_eq!(is_same(&|inputs| inputs), Some(3));
        assert_eq!(is_same(&|inputs| inputs.value("x", vec![4.0, 5.0, 6.0])), Some(3));
        let changes: [&dyn Fn(&mut Inputs) -> &mut Inputs; 9] = [
            &|inputs| inputs.value("x", vec![4.0, 5.0]),
            &|inputs| inputs.value("x", vec![4.0_f32, 5.0, 6.0]),
            &|inputs| inputs.value("A", csr(vec![0, 1])),
            &|inputs| inputs.value("p", Value::scalar(1.0)),
            &|inputs| inputs.value("p.0", 1.0),
            &|inputs| inputs.map("to", &[3], vec![0, 1, 1]),
            &|inputs| inputs.size("T", 5),
            &|inputs| inputs.size("n", 2),
            &|inputs| inputs.relation("other", Relation::nothing(2)),
        ];
        for (k, change) in changes.into_iter().enumerate() {
            assert_eq!(is_same(change), None, "{k}");
        }
    }
}
