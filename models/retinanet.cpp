#include "models/retinanet.h"

#include <fmt/format.h>

#include <cmath>

namespace lathe::models {
namespace {

constexpr std::array kRatios = {0.5, 1.0, 2.0};
constexpr std::int64_t kScales = 3;  // sizes of a level: 1, 2^(1/3), 2^(2/3) of its smallest
constexpr std::int64_t kAnchors = kScales * std::ssize(kRatios);
const ConvOptions kSame{.padding = 1}, kHalf{.stride = 2, .padding = 1};

std::vector<std::int64_t> last_three(const std::vector<std::int64_t>& channels) {
  return {channels.end() - 3, channels.end()};
}

std::vector<double> sizes_of(const RetinaNetConfig& c, std::size_t level) {
  std::vector<double> sizes;
  for (int part = 0; part < kScales; ++part)
    sizes.push_back(std::trunc(std::ldexp(c.smallest, static_cast<int>(level)) * std::exp2(part / 3.0)));
  return sizes;
}

// Cross entropy of each score, less the better it is already.
Tensor focal_loss(const Tensor& logits, const Tensor& wanted) {
  constexpr double kShareOfFound = 0.25;
  const Tensor p = logits.sigmoid(), other = 1 - wanted;
  const Tensor entropy = logits.binary_crossentropy_logits(wanted, Reduction::None);
  const Tensor unsure = 1 - (p * wanted + (1 - p) * other);
  return (wanted * kShareOfFound + other * (1 - kShareOfFound)) * entropy * unsure.square();
}

Tensor loss_of(const Tensor& logits, const Tensor& steps, const Tensor& anchors, const Tensor& boxes,
               const Tensor& labels) {
  constexpr double kMine = 0.5, kNobodys = 0.4;
  const Tensor there = labels >= 0;
  const Tensor share = overlap(anchors, boxes).masked_fill(there.logical_not(), -1.0);  // (anchors, n)
  const Tensor best = share.max({1}), which = share.argmax(1);
  // An anchor that fits a box best of all anchors is that box's, however little it fits.
  const Tensor forced = (share.eq(share.max({0})) & there & (share > 0)).any({1});
  const Tensor mine = (best >= kMine) | forced, other = (best < kNobodys) & forced.logical_not();
  const Tensor classes = Tensor::arange(logits.size(-1), {.device = logits.device()});
  const Tensor wanted = (labels.getitem({which}).unsqueeze(1).eq(classes) & mine.unsqueeze(1)).to_float();
  const Tensor focal = focal_loss(logits, wanted) * (mine | other).unsqueeze(1);
  const Tensor distance = (steps - steps_between(anchors, boxes.getitem({which}))).abs();
  return (focal.sum() + mine.unsqueeze(1).where(distance, 0).sum()) / mine.sum().clamp(1, std::nullopt);
}

}  // namespace

FeaturePyramid::FeaturePyramid(const std::vector<std::int64_t>& channels, std::int64_t dim)
    : p6(dim, dim, 3, kHalf), p7(dim, dim, 3, kHalf) {
  for (const std::int64_t c : channels) {
    inner.emplace_back(c, dim, 1);
    layer.emplace_back(dim, dim, 3, kSame);
  }
}

std::vector<Tensor> FeaturePyramid::operator()(const std::vector<Tensor>& features) const {
  std::vector<Tensor> levels(features.size());
  Tensor above;
  for (std::size_t i = features.size(); i-- > 0;) {
    Tensor x = inner[i](features[i]);
    if (above.defined()) x = x + above.interpolate({x.size(2).value(), x.size(3).value()}, "nearest");
    above = x;
    levels[i] = layer[i](x);
  }
  levels.push_back(p6(levels.back()));
  levels.push_back(p7(levels.back().relu()));
  return levels;
}

void FeaturePyramid::parts(nn::Parts& p) {
  for (std::size_t i = 0; i < inner.size(); ++i) p(fmt::format("inner_blocks.{}.0", i), inner[i]);
  for (std::size_t i = 0; i < layer.size(); ++i) p(fmt::format("layer_blocks.{}.0", i), layer[i]);
  p("extra_blocks.p6", p6)("extra_blocks.p7", p7);
}

DetectionHead::DetectionHead(std::int64_t dim, std::string name, std::int64_t anchors, std::int64_t out)
    : last(dim, anchors * out, 3, kSame), last_name(std::move(name)), outputs(out) {
  constexpr int kConvs = 4;
  for (int i = 0; i < kConvs; ++i) convs.emplace_back(dim, dim, 3, kSame);
}

Tensor DetectionHead::operator()(const Tensor& x) const {
  Tensor out = x;
  for (const nn::Conv2d& conv : convs) out = conv(out).relu();
  return last(out).permute({0, 2, 3, 1}).reshape({x.size(0), -1, outputs});
}

void DetectionHead::parts(nn::Parts& p) {
  for (std::size_t i = 0; i < convs.size(); ++i) p(fmt::format("conv.{}.0", i), convs[i]);
  p(last_name, last);
}

RetinaNet::RetinaNet(const RetinaNetConfig& c)
    : config(c),
      body(c.depth, 0, c.width),
      pyramid(last_three(body.channels()), c.dim),
      classification(c.dim, "cls_logits", kAnchors, c.classes),
      regression(c.dim, "bbox_reg", kAnchors, 4) {
  constexpr double kFirstProbability = 0.01;
  if (!nn::UninitializedScope::active())
    classification.last.bias = nn::parameter(Tensor::full(
        classification.last.bias.shape(), std::log(kFirstProbability / (1 - kFirstProbability))));
}

RetinaNet::Levels RetinaNet::operator()(const Tensor& images) {
  const std::vector<Tensor> stages = body.features(images);
  const std::vector<Tensor> levels = pyramid({stages.end() - 3, stages.end()});
  const Extent extent{images.size(2).value(), images.size(3).value()};
  Levels out;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    out.logits.push_back(classification(levels[i]));
    out.steps.push_back(regression(levels[i]));
    out.anchors.push_back(anchors_at({levels[i].size(2).value(), levels[i].size(3).value()}, extent,
                                     sizes_of(config, i), kRatios)
                              .to(images.device()));
  }
  return out;
}

std::vector<Detections> RetinaNet::detect(const Tensor& images, const DetectOptions& o) {
  const Levels levels = (*this)(images);
  const auto height = static_cast<float>(images.size(2).value()),
             width = static_cast<float>(images.size(3).value());
  const Tensor limit(std::vector<float>{width, height, width, height}, {.device = images.device()});
  std::vector<Detections> all;
  for (std::int64_t image = 0; image < images.size(0).value(); ++image) {
    std::vector<Tensor> boxes, scores, labels;
    for (std::size_t i = 0; i < levels.logits.size(); ++i) {
      const Tensor flat = levels.logits[i][image].sigmoid().flatten();
      const auto [score, where] = flat.topk(std::min(o.candidates, flat.size(0).value()));
      const Tensor anchor = where.floor_divide(config.classes);
      boxes.push_back(moved(levels.anchors[i].getitem({anchor}), levels.steps[i][image].getitem({anchor})));
      scores.push_back(score);
      labels.push_back(where.mod(config.classes));
    }
    const auto [score, order] = Tensor::cat(scores).sort(-1, true);
    const Tensor box = Tensor::cat(boxes).clamp(0, std::nullopt).minimum(limit).getitem({order});
    const Tensor label = Tensor::cat(labels).getitem({order});
    const Tensor kept = best_of_overlapping(box, label, score > o.least_score, o.most_overlap);
    const auto [ranked, best] = (score * kept.to_float()).topk(std::min(o.most, score.size(0).value()));
    all.push_back({box.getitem({best}), ranked, label.getitem({best}), ranked > 0});
  }
  return all;
}

Tensor RetinaNet::loss(const Tensor& images, const Tensor& boxes, const Tensor& labels) {
  const Levels levels = (*this)(images);
  const Tensor logits = Tensor::cat(levels.logits, 1), steps = Tensor::cat(levels.steps, 1),
               anchors = Tensor::cat(levels.anchors);
  const std::int64_t count = images.size(0).value();
  Tensor sum = loss_of(logits[0], steps[0], anchors, boxes[0], labels[0]);
  for (std::int64_t i = 1; i < count; ++i)
    sum = sum + loss_of(logits[i], steps[i], anchors, boxes[i], labels[i]);
  return sum / count;
}

void RetinaNet::parts(nn::Parts& p) {
  p("backbone.body", body)("backbone.fpn", pyramid);
  p("head.classification_head", classification)("head.regression_head", regression);
}

}  // namespace lathe::models
