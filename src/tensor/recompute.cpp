#include "tensor/recompute.h"

#include "lathe/checkpoint.h"
#include "tensor/impl.h"

namespace lathe {
namespace {

// True, in a way that only computing it shows: i * i + i is even whatever the bits of an element of `value`
// are. What is stored under it waits for the value.
Node true_once_known(Node value) {
  Nodes zero(value.rank(), index_const(0)), one(value.rank(), index_const(1));
  const Node first = reshape_to(shrink_to_bounds(value, zero, one), {});
  const Node wide = cast(first, dtypes::Float32);
  const Node i = bitcast(wide, dtypes::UInt32);
  const Node odd = apply(Op::And, i * i + i, number(dtypes::UInt32, 1));
  return equal(odd, number(dtypes::UInt32, 0));
}

}  // namespace

Recomputed recompute(Node value, std::span<const Node> inputs, Node after, std::string_view device) {
  Recomputed out;
  const bool empty = size_product(after.shape()).is_const_int(0);
  NodeMap<Node> again;
  for (Node input : inputs) {
    Node copy = input;
    if (input.dtype().is_float()) {
      Node kept = input;
      if (!empty) {
        const Node known = expand_to(true_once_known(after), input.shape());
        kept = where(known, input, zero_of(input.dtype()));
      }
      copy = stored_value(kept, device);
      again[input] = copy;
    }
    out.copies.push_back(copy);
  }
  NodeMap<char> seen;
  for (Node n : toposort(value)) {
    if (again.contains(n)) continue;
    bool changed = false;
    Nodes args(n.args().begin(), n.args().end());
    for (Node& a : args)
      if (const Node* other = again.find(a)) {
        a = *other;
        changed = true;
      }
    if (!changed) continue;
    again[n] = n.with_args(args);
    for (Node a : n.args())
      if (!again.contains(a) && seen.try_emplace(a, 1).second) out.border.push_back(a);
  }
  const Node* made = again.find(value);
  out.value = made == nullptr ? value : *made;
  return out;
}

Tensor checkpoint(const std::function<Tensor(const std::vector<Tensor>&)>& function,
                  const std::vector<Tensor>& inputs) {
  Scope scope;
  if (inputs.empty()) throw UserError("checkpoint", "there is no input").help("pass the function's inputs");
  for (const Tensor& t : inputs) check_same_device("checkpoint", inputs[0], t);
  const Tensor value = function(inputs);
  if (!value.defined()) throw UserError("checkpoint", "the function returned no tensor");
  if (!is_tracked(value)) return value;
  std::vector<Node> args{node_of(value)};
  for (const Tensor& t : inputs) args.push_back(node_of(t));
  AttrData attr{std::string(kCheckpoint), {}};
  return make_tensor(intern(Op::Custom, args[0].dtype(), args, Attr::of(attr)), value.device(),
                     origin_of(value));
}

}  // namespace lathe
