// RetinaNet (Lin and others, 2017): a ResNet, a pyramid of features, and two heads over anchors, with the
// names of torchvision's files. What comes out is decided on the device: scores, boxes, the best of each
// level, the best of those that overlap.
#pragma once

#include <array>

#include "models/boxes.h"
#include "models/resnet.h"

namespace lathe::models {

// The default is the published net over ResNet-50.
struct RetinaNetConfig {
  std::int64_t classes = 91, depth = 50, width = 64, dim = 256;
  double smallest = 32;  // side of the anchors of the finest level; each further level doubles it
};

// Features of the last three stages, each with those of the coarser ones added, and two levels more.
struct FeaturePyramid : nn::Module {
  FeaturePyramid(const std::vector<std::int64_t>& channels, std::int64_t dim);
  std::vector<Tensor> operator()(const std::vector<Tensor>& features) const;
  void parts(nn::Parts& p) override;

  std::vector<nn::Conv2d> inner, layer;
  nn::Conv2d p6, p7;
};

// Four convolutions, then `outputs` numbers for each anchor of each cell: (batch, anchors, outputs).
struct DetectionHead : nn::Module {
  DetectionHead(std::int64_t dim, std::string last_name, std::int64_t anchors, std::int64_t outputs);
  Tensor operator()(const Tensor& x) const;
  void parts(nn::Parts& p) override;

  std::vector<nn::Conv2d> convs;
  nn::Conv2d last;
  std::string last_name;
  std::int64_t outputs;
};

struct Detections {
  Tensor boxes, scores, labels;  // (n, 4), (n), (n), from the best to the worst
  Tensor there;                  // (n) bool: whether there is one
};
struct DetectOptions {
  double least_score = 0.05, most_overlap = 0.5;
  std::int64_t candidates = 1000, most = 300;  // of a level, of an image
};

struct RetinaNet : nn::Module {
  explicit RetinaNet(const RetinaNetConfig& config = {});

  struct Levels {
    std::vector<Tensor> logits, steps,
        anchors;  // (batch, anchors, classes), (batch, anchors, 4), (anchors, 4)
  };
  Levels operator()(const Tensor& images);  // (batch, 3, height, width)
  std::vector<Detections> detect(const Tensor& images, const DetectOptions& options = {});
  // boxes: (batch, n, 4); labels: (batch, n), -1 where an image has fewer than n.
  Tensor loss(const Tensor& images, const Tensor& boxes, const Tensor& labels);
  void parts(nn::Parts& p) override;

  RetinaNetConfig config;
  ResNet body;
  FeaturePyramid pyramid;
  DetectionHead classification, regression;
};

}  // namespace lathe::models
