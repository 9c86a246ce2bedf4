// The networks as plain loops over doubles: what the one made of ATen operations is held against, and
// what the server's tests serve.
#pragma once

#include "policy.h"
#include "policy_file.h"

namespace anole {

class ReferenceNetwork : public Policy {
  public:
    explicit ReferenceNetwork(PolicyFile file);
    const Shape& shape() const override { return shape_; }
    void step(std::uint32_t rows, const float* inputs, float* states, float* outputs) const override;

  private:
    using Values = std::vector<double>;
    Values dense(const std::string& name, const Values& x) const;
    Values affine(const std::string& weight, const std::string& bias, const Values& x) const;
    Values layer_norm(const std::string& name, const Values& x) const;
    Values convolution(const std::string& name, const Convolution& shape, const Values& x) const;
    void lstm(const std::string& name, const Values& x, Values& h, Values& c) const;
    void gru(const std::string& name, const Values& x, Values& h) const;
    Values row(const Sequential& network, Values x, float* state) const;
    Values row(const Hierarchical& network, Values x, float* state) const;

    PolicyFile file_;
    Shape shape_;
};

}  // namespace anole
