// The conditions of an experiment: flags that hold for everything that compiles the subject.
#pragma once

#include <memory>
#include <vector>

#include "base/env.h"
#include "engine/compile_context.h"
#include "investigate/experiment.h"
#include "runtime/devices.h"

namespace lathe::investigate {

class Setting {
 public:
  Setting(const Subject& subject, const Conditions& conditions);

  const Subject& subject() const { return subject_; }
  OpenDevice& device() const { return device_; }
  const Compiler& compiler() const { return *compiler_; }
  const Target& target() const { return compiler_->target(); }
  const std::vector<Opt>& options() const { return options_; }
  const std::vector<reference::Array>& before() const { return before_; }  // by slot
  Compile compile() const { return engine::compile_for(target()); }
  // As the engine does it.
  Program lower() const;

 private:
  const Subject& subject_;
  const FlagScope printer_, noopt_, verify_, save_;
  const engine::ExperimentScope without_;
  OpenDevice& device_;
  std::shared_ptr<const Compiler> compiler_;
  std::vector<Opt> options_;
  std::vector<reference::Array> before_;
};

}  // namespace lathe::investigate
