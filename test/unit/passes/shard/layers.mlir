// Layers of LayerTest.cpp, in float64. V = 3, N = 7. The block has 3 key heads of 2 queries each with 2
// features, and an ffn of 9: nothing divides evenly by 2, 4 or 8.
#NC = affine_map<(d0, d1) -> (1, d1, 8)>
#N = affine_map<(d0, d1) -> (d1)>
#N8 = affine_map<(d0, d1) -> (d1, 8)>
#NQ = affine_map<(d0, d1) -> (1, d1, 12)>
#NK = affine_map<(d0, d1) -> (1, d1, 6)>
#NHD = affine_map<(d0, d1) -> (1, d1, 6, 2)>
#HND = affine_map<(d0, d1) -> (1, 6, d1, 2)>
#NKD = affine_map<(d0, d1) -> (1, d1, 3, 2)>
#KND = affine_map<(d0, d1) -> (1, 3, d1, 2)>
#HN = affine_map<(d0, d1) -> (1, 6, d1)>
#NF = affine_map<(d0, d1) -> (1, d1, 9)>
#N1 = affine_map<(d0, d1) -> (d1 + 1)>
#VPC = affine_map<(d0, d1) -> (d0, 4, 6)>
#VHPD = affine_map<(d0, d1) -> (d0, 3, 4, 2)>
#VPHD = affine_map<(d0, d1) -> (d0, 4, 3, 2)>
#VHP = affine_map<(d0, d1) -> (d0, 3, 4)>
#V1C = affine_map<(d0, d1) -> (d0, 1, 6)>
#V5C = affine_map<(d0, d1) -> (d0, 5, 6)>
#R6 = affine_map<(d0, d1) -> (d0 * 4, 6)>
#R8 = affine_map<(d0, d1) -> (d0 * 4, 8)>
#L = affine_map<(d0, d1) -> (1, d1)>

module {
  omnibal.parameter @n1 : tensor<8xf64>
  omnibal.parameter @wq : tensor<12x8xf64>
  omnibal.parameter @wk : tensor<6x8xf64>
  omnibal.parameter @wv : tensor<6x8xf64>
  omnibal.parameter @wo : tensor<8x12xf64>
  omnibal.parameter @bo : tensor<8xf64>
  omnibal.parameter @n2 : tensor<8xf64>
  omnibal.parameter @gate : tensor<9x8xf64>
  omnibal.parameter @up : tensor<9x8xf64>
  omnibal.parameter @down : tensor<8x9xf64>
  omnibal.parameter @qkv : tensor<18x6xf64>
  omnibal.parameter @vn : tensor<6xf64>
  omnibal.parameter @vb : tensor<6xf64>
  omnibal.parameter @class : tensor<1x1x6xf64>
  omnibal.parameter @table : tensor<11x8xf64>
  omnibal.parameter @project : tensor<8x6xf64>
  omnibal.parameter @hn : tensor<8xf64>
  omnibal.parameter @qn : tensor<12xf64>
  omnibal.parameter @words : tensor<11x8xf64>
  omnibal.parameter @wb : tensor<11xf64>

  func.func @block(%x: tensor<1x?x8xf64, #NC>) {
    %n1 = omnibal.get_parameter @n1 : tensor<8xf64>
    %wq = omnibal.get_parameter @wq : tensor<12x8xf64>
    %wk = omnibal.get_parameter @wk : tensor<6x8xf64>
    %wv = omnibal.get_parameter @wv : tensor<6x8xf64>
    %wo = omnibal.get_parameter @wo : tensor<8x12xf64>
    %bo = omnibal.get_parameter @bo : tensor<8xf64>
    %n2 = omnibal.get_parameter @n2 : tensor<8xf64>
    %gate = omnibal.get_parameter @gate : tensor<9x8xf64>
    %up = omnibal.get_parameter @up : tensor<9x8xf64>
    %down = omnibal.get_parameter @down : tensor<8x9xf64>
    %y = omnibal.layer "block" language inputs(%x) parameters(%n1, %wq, %wk, %wv, %wo, %bo, %n2, %gate, %up, %down)
      : (tensor<1x?x8xf64, #NC>, tensor<8xf64>, tensor<12x8xf64>, tensor<6x8xf64>, tensor<6x8xf64>, tensor<8x12xf64>, tensor<8xf64>, tensor<8xf64>, tensor<9x8xf64>, tensor<9x8xf64>, tensor<8x9xf64>) -> tensor<1x?x8xf64, #NC> {
    ^bb0(%in: tensor<1x?x8xf64, #NC>, %pn1: tensor<8xf64>, %pq: tensor<12x8xf64>, %pk: tensor<6x8xf64>, %pv: tensor<6x8xf64>, %po: tensor<8x12xf64>, %pb: tensor<8xf64>, %pn2: tensor<8xf64>, %pg: tensor<9x8xf64>, %pu: tensor<9x8xf64>, %pd: tensor<8x9xf64>):
      %cu = omnibal.batch_value "cu_seqlens" : tensor<?xi32, #N1>
      %positions = omnibal.batch_value "positions" : tensor<?xi32, #N>
      %cos = omnibal.constant dense<[[1.0], [0.5], [-0.25], [0.75], [0.1], [0.3], [-0.8]]> : tensor<7x1xf64>
      %sin = omnibal.constant dense<[[0.0], [0.7], [0.2], [-0.4], [0.9], [0.6], [-0.1]]> : tensor<7x1xf64>
      %cos2 = omnibal.concat %cos, %cos {axis = 1 : i64} : (tensor<7x1xf64>, tensor<7x1xf64>) -> tensor<7x2xf64>
      %sin2 = omnibal.concat %sin, %sin {axis = 1 : i64} : (tensor<7x1xf64>, tensor<7x1xf64>) -> tensor<7x2xf64>
      %a = omnibal.rms_norm %in, %pn1 {axis = -1 : i64, epsilon = 1.0e-3 : f64} : (tensor<1x?x8xf64, #NC>, tensor<8xf64>) -> tensor<1x?x8xf64, #NC>
      %q0 = omnibal.linear %a, %pq : (tensor<1x?x8xf64, #NC>, tensor<12x8xf64>) -> tensor<1x?x12xf64, #NQ>
      %k0 = omnibal.linear %a, %pk : (tensor<1x?x8xf64, #NC>, tensor<6x8xf64>) -> tensor<1x?x6xf64, #NK>
      %v0 = omnibal.linear %a, %pv : (tensor<1x?x8xf64, #NC>, tensor<6x8xf64>) -> tensor<1x?x6xf64, #NK>
      %q1 = omnibal.reshape %q0 : (tensor<1x?x12xf64, #NQ>) -> tensor<1x?x6x2xf64, #NHD>
      %k1 = omnibal.reshape %k0 : (tensor<1x?x6xf64, #NK>) -> tensor<1x?x3x2xf64, #NKD>
      %v1 = omnibal.reshape %v0 : (tensor<1x?x6xf64, #NK>) -> tensor<1x?x3x2xf64, #NKD>
      %q2 = omnibal.transpose %q1 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x?x6x2xf64, #NHD>) -> tensor<1x6x?x2xf64, #HND>
      %k2 = omnibal.transpose %k1 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x?x3x2xf64, #NKD>) -> tensor<1x3x?x2xf64, #KND>
      %v2 = omnibal.transpose %v1 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x?x3x2xf64, #NKD>) -> tensor<1x3x?x2xf64, #KND>
      %q3 = omnibal.rope %q2, %positions, %cos2, %sin2 : (tensor<1x6x?x2xf64, #HND>, tensor<?xi32, #N>, tensor<7x2xf64>, tensor<7x2xf64>) -> tensor<1x6x?x2xf64, #HND>
      %k3 = omnibal.rope %k2, %positions, %cos2, %sin2 : (tensor<1x3x?x2xf64, #KND>, tensor<?xi32, #N>, tensor<7x2xf64>, tensor<7x2xf64>) -> tensor<1x3x?x2xf64, #KND>
      %o0, %lse = omnibal.attention %q3, %k3, %v2, %cu {scale = 0.7 : f64, mask_kind = 2 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0>} : (tensor<1x6x?x2xf64, #HND>, tensor<1x3x?x2xf64, #KND>, tensor<1x3x?x2xf64, #KND>, tensor<?xi32, #N1>) -> (tensor<1x6x?x2xf64, #HND>, tensor<1x6x?xf64, #HN>)
      %o1 = omnibal.transpose %o0 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x6x?x2xf64, #HND>) -> tensor<1x?x6x2xf64, #NHD>
      %o2 = omnibal.reshape %o1 : (tensor<1x?x6x2xf64, #NHD>) -> tensor<1x?x12xf64, #NQ>
      %o3 = omnibal.linear %o2, %po, %pb : (tensor<1x?x12xf64, #NQ>, tensor<8x12xf64>, tensor<8xf64>) -> tensor<1x?x8xf64, #NC>
      %r = omnibal.add %in, %o3 : (tensor<1x?x8xf64, #NC>, tensor<1x?x8xf64, #NC>) -> tensor<1x?x8xf64, #NC>
      %b = omnibal.rms_norm %r, %pn2 {axis = -1 : i64, epsilon = 1.0e-3 : f64} : (tensor<1x?x8xf64, #NC>, tensor<8xf64>) -> tensor<1x?x8xf64, #NC>
      %g0 = omnibal.linear %b, %pg : (tensor<1x?x8xf64, #NC>, tensor<9x8xf64>) -> tensor<1x?x9xf64, #NF>
      %u0 = omnibal.linear %b, %pu : (tensor<1x?x8xf64, #NC>, tensor<9x8xf64>) -> tensor<1x?x9xf64, #NF>
      %g1 = omnibal.silu %g0 : (tensor<1x?x9xf64, #NF>) -> tensor<1x?x9xf64, #NF>
      %h = omnibal.mul %g1, %u0 : (tensor<1x?x9xf64, #NF>, tensor<1x?x9xf64, #NF>) -> tensor<1x?x9xf64, #NF>
      %d = omnibal.linear %h, %pd : (tensor<1x?x9xf64, #NF>, tensor<8x9xf64>) -> tensor<1x?x8xf64, #NC>
      %out = omnibal.add %r, %d : (tensor<1x?x8xf64, #NC>, tensor<1x?x8xf64, #NC>) -> tensor<1x?x8xf64, #NC>
      omnibal.yield %out : tensor<1x?x8xf64, #NC>
    }
    return
  }

  // Three projections in one, cut by heads; a class token in front of the patches.
  func.func @tower(%x: tensor<?x4x6xf64, #VPC>) {
    %vn = omnibal.get_parameter @vn : tensor<6xf64>
    %vb = omnibal.get_parameter @vb : tensor<6xf64>
    %qkv = omnibal.get_parameter @qkv : tensor<18x6xf64>
    %class = omnibal.get_parameter @class : tensor<1x1x6xf64>
    %y = omnibal.layer "tower" vision inputs(%x) parameters(%vn, %vb, %qkv, %class)
      : (tensor<?x4x6xf64, #VPC>, tensor<6xf64>, tensor<6xf64>, tensor<18x6xf64>, tensor<1x1x6xf64>) -> tensor<?x5x6xf64, #V5C> {
    ^bb0(%in: tensor<?x4x6xf64, #VPC>, %pn: tensor<6xf64>, %pb: tensor<6xf64>, %pw: tensor<18x6xf64>, %pc: tensor<1x1x6xf64>):
      %a = omnibal.layer_norm %in, %pn, %pb {axis = -1 : i64, epsilon = 1.0e-3 : f64} : (tensor<?x4x6xf64, #VPC>, tensor<6xf64>, tensor<6xf64>) -> tensor<?x4x6xf64, #VPC>
      %qkv0 = omnibal.linear %a, %pw : (tensor<?x4x6xf64, #VPC>, tensor<18x6xf64>) -> tensor<?x4x18xf64, affine_map<(d0, d1) -> (d0, 4, 18)>>
      %q0 = omnibal.slice %qkv0 {begin = array<i64: 0, 0, 0>, operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>} : (tensor<?x4x18xf64, affine_map<(d0, d1) -> (d0, 4, 18)>>) -> tensor<?x4x6xf64, #VPC>
      %k0 = omnibal.slice %qkv0 {begin = array<i64: 0, 0, 6>, operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>} : (tensor<?x4x18xf64, affine_map<(d0, d1) -> (d0, 4, 18)>>) -> tensor<?x4x6xf64, #VPC>
      %v0 = omnibal.slice %qkv0 {begin = array<i64: 0, 0, 12>, operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>} : (tensor<?x4x18xf64, affine_map<(d0, d1) -> (d0, 4, 18)>>) -> tensor<?x4x6xf64, #VPC>
      %q1 = omnibal.reshape %q0 : (tensor<?x4x6xf64, #VPC>) -> tensor<?x4x3x2xf64, #VPHD>
      %k1 = omnibal.reshape %k0 : (tensor<?x4x6xf64, #VPC>) -> tensor<?x4x3x2xf64, #VPHD>
      %v1 = omnibal.reshape %v0 : (tensor<?x4x6xf64, #VPC>) -> tensor<?x4x3x2xf64, #VPHD>
      %q2 = omnibal.transpose %q1 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<?x4x3x2xf64, #VPHD>) -> tensor<?x3x4x2xf64, #VHPD>
      %k2 = omnibal.transpose %k1 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<?x4x3x2xf64, #VPHD>) -> tensor<?x3x4x2xf64, #VHPD>
      %v2 = omnibal.transpose %v1 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<?x4x3x2xf64, #VPHD>) -> tensor<?x3x4x2xf64, #VHPD>
      %o0, %lse = omnibal.attention %q2, %k2, %v2 {scale = 0.7 : f64, mask_kind = 1 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>} : (tensor<?x3x4x2xf64, #VHPD>, tensor<?x3x4x2xf64, #VHPD>, tensor<?x3x4x2xf64, #VHPD>) -> (tensor<?x3x4x2xf64, #VHPD>, tensor<?x3x4xf64, #VHP>)
      %o1 = omnibal.transpose %o0 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<?x3x4x2xf64, #VHPD>) -> tensor<?x4x3x2xf64, #VPHD>
      %o2 = omnibal.reshape %o1 : (tensor<?x4x3x2xf64, #VPHD>) -> tensor<?x4x6xf64, #VPC>
      %r = omnibal.add %in, %o2 : (tensor<?x4x6xf64, #VPC>, tensor<?x4x6xf64, #VPC>) -> tensor<?x4x6xf64, #VPC>
      %c = omnibal.expand %pc : (tensor<1x1x6xf64>) -> tensor<?x1x6xf64, #V1C>
      %out = omnibal.concat %c, %r {axis = 1 : i64} : (tensor<?x1x6xf64, #V1C>, tensor<?x4x6xf64, #VPC>) -> tensor<?x5x6xf64, #V5C>
      omnibal.yield %out : tensor<?x5x6xf64, #V5C>
    }
    return
  }

  // Features of tiles, merged into words at rows that the batch says, and the loss of a tied head.
  func.func @ends(%x: tensor<?x4x6xf64, #VPC>) {
    %table = omnibal.get_parameter @table : tensor<11x8xf64>
    %project = omnibal.get_parameter @project : tensor<8x6xf64>
    %hn = omnibal.get_parameter @hn : tensor<8xf64>
    %l, %p = omnibal.layer "ends" head inputs(%x) parameters(%table, %project, %hn) attributes {omnibal.outputs = ["loss", "prediction"]}
      : (tensor<?x4x6xf64, #VPC>, tensor<11x8xf64>, tensor<8x6xf64>, tensor<8xf64>) -> (tensor<1x?xf64, #L>, tensor<1x?xi32, #L>) {
    ^bb0(%in: tensor<?x4x6xf64, #VPC>, %pt: tensor<11x8xf64>, %pp: tensor<8x6xf64>, %ph: tensor<8xf64>):
      %ids = omnibal.batch_value "input_ids" : tensor<1x?xi32, #L>
      %rows = omnibal.batch_value "image_rows" : tensor<?xi32, #N>
      %targets = omnibal.batch_value "targets" : tensor<1x?xi32, #L>
      %e = omnibal.embedding %pt, %ids : (tensor<11x8xf64>, tensor<1x?xi32, #L>) -> tensor<1x?x8xf64, #NC>
      %f0 = omnibal.reshape %in : (tensor<?x4x6xf64, #VPC>) -> tensor<?x6xf64, #R6>
      %f = omnibal.linear %f0, %pp : (tensor<?x6xf64, #R6>, tensor<8x6xf64>) -> tensor<?x8xf64, #R8>
      %m = omnibal.image_merge %e, %f, %rows : (tensor<1x?x8xf64, #NC>, tensor<?x8xf64, #R8>, tensor<?xi32, #N>) -> tensor<1x?x8xf64, #NC>
      %n = omnibal.rms_norm %m, %ph {axis = -1 : i64, epsilon = 1.0e-3 : f64} : (tensor<1x?x8xf64, #NC>, tensor<8xf64>) -> tensor<1x?x8xf64, #NC>
      %loss, %prediction = omnibal.linear_cross_entropy %n, %pt, %targets : (tensor<1x?x8xf64, #NC>, tensor<11x8xf64>, tensor<1x?xi32, #L>) -> (tensor<1x?xf64, #L>, tensor<1x?xi32, #L>)
      omnibal.yield %loss, %prediction : tensor<1x?xf64, #L>, tensor<1x?xi32, #L>
    }
    return
  }

  // Losses of an untied head with a bias, compared in pairs.
  func.func @pairs(%x: tensor<?x8xf64, #N8>) {
    %words = omnibal.get_parameter @words : tensor<11x8xf64>
    %wb = omnibal.get_parameter @wb : tensor<11xf64>
    %l, %p = omnibal.layer "pairs" head inputs(%x) parameters(%words, %wb) attributes {omnibal.outputs = ["loss", "prediction"]}
      : (tensor<?x8xf64, #N8>, tensor<11x8xf64>, tensor<11xf64>) -> (tensor<?xf64, #N>, tensor<?xi32, #N>) {
    ^bb0(%in: tensor<?x8xf64, #N8>, %pw: tensor<11x8xf64>, %pb: tensor<11xf64>):
      %cu = omnibal.batch_value "cu_seqlens" : tensor<?xi32, #N1>
      %reference = omnibal.batch_value "reference" : tensor<?xf64, #N>
      %targets = omnibal.batch_value "list_of_targets" : tensor<?xi32, #N>
      %losses, %prediction = omnibal.linear_cross_entropy %in, %pw, %pb, %targets {smoothing = 0.1 : f64} : (tensor<?x8xf64, #N8>, tensor<11x8xf64>, tensor<11xf64>, tensor<?xi32, #N>) -> (tensor<?xf64, #N>, tensor<?xi32, #N>)
      %loss:4 = omnibal.preference_loss %losses, %cu, %reference {beta = 0.4 : f64} : (tensor<?xf64, #N>, tensor<?xi32, #N1>, tensor<?xf64, #N>) -> (tensor<?xf64, #N>, tensor<?xf64, #N>, tensor<?xf64, #N>, tensor<?xf64, #N>)
      omnibal.yield %loss#0, %prediction : tensor<?xf64, #N>, tensor<?xi32, #N>
    }
    return
  }

  // Small ones, of which all assignments can be tried: a gated product, a chain with a norm over columns that a product
  // makes, and attention of 3 key heads.
  func.func @gated(%x: tensor<1x?x8xf64, #NC>) {
    %gate = omnibal.get_parameter @gate : tensor<9x8xf64>
    %up = omnibal.get_parameter @up : tensor<9x8xf64>
    %down = omnibal.get_parameter @down : tensor<8x9xf64>
    %bo = omnibal.get_parameter @bo : tensor<8xf64>
    %y = omnibal.layer "gated" language inputs(%x) parameters(%gate, %up, %down, %bo)
      : (tensor<1x?x8xf64, #NC>, tensor<9x8xf64>, tensor<9x8xf64>, tensor<8x9xf64>, tensor<8xf64>) -> tensor<1x?x8xf64, #NC> {
    ^bb0(%in: tensor<1x?x8xf64, #NC>, %pg: tensor<9x8xf64>, %pu: tensor<9x8xf64>, %pd: tensor<8x9xf64>, %pb: tensor<8xf64>):
      %g0 = omnibal.linear %in, %pg : (tensor<1x?x8xf64, #NC>, tensor<9x8xf64>) -> tensor<1x?x9xf64, #NF>
      %u0 = omnibal.linear %in, %pu : (tensor<1x?x8xf64, #NC>, tensor<9x8xf64>) -> tensor<1x?x9xf64, #NF>
      %g1 = omnibal.silu %g0 : (tensor<1x?x9xf64, #NF>) -> tensor<1x?x9xf64, #NF>
      %h = omnibal.mul %g1, %u0 : (tensor<1x?x9xf64, #NF>, tensor<1x?x9xf64, #NF>) -> tensor<1x?x9xf64, #NF>
      %d = omnibal.linear %h, %pd, %pb : (tensor<1x?x9xf64, #NF>, tensor<8x9xf64>, tensor<8xf64>) -> tensor<1x?x8xf64, #NC>
      %out = omnibal.add %in, %d : (tensor<1x?x8xf64, #NC>, tensor<1x?x8xf64, #NC>) -> tensor<1x?x8xf64, #NC>
      omnibal.yield %out : tensor<1x?x8xf64, #NC>
    }
    return
  }

  func.func @normed(%x: tensor<1x?x8xf64, #NC>) {
    %wq = omnibal.get_parameter @wq : tensor<12x8xf64>
    %qn = omnibal.get_parameter @qn : tensor<12xf64>
    %wo = omnibal.get_parameter @wo : tensor<8x12xf64>
    %n1 = omnibal.get_parameter @n1 : tensor<8xf64>
    %y = omnibal.layer "normed" language inputs(%x) parameters(%wq, %qn, %wo, %n1)
      : (tensor<1x?x8xf64, #NC>, tensor<12x8xf64>, tensor<12xf64>, tensor<8x12xf64>, tensor<8xf64>) -> tensor<1x?x8xf64, #NC> {
    ^bb0(%in: tensor<1x?x8xf64, #NC>, %pq: tensor<12x8xf64>, %pn: tensor<12xf64>, %po: tensor<8x12xf64>, %p1: tensor<8xf64>):
      %a = omnibal.linear %in, %pq : (tensor<1x?x8xf64, #NC>, tensor<12x8xf64>) -> tensor<1x?x12xf64, #NQ>
      %b = omnibal.rms_norm %a, %pn {axis = -1 : i64, epsilon = 1.0e-3 : f64} : (tensor<1x?x12xf64, #NQ>, tensor<12xf64>) -> tensor<1x?x12xf64, #NQ>
      %c = omnibal.linear %b, %po : (tensor<1x?x12xf64, #NQ>, tensor<8x12xf64>) -> tensor<1x?x8xf64, #NC>
      %d = omnibal.add %in, %c : (tensor<1x?x8xf64, #NC>, tensor<1x?x8xf64, #NC>) -> tensor<1x?x8xf64, #NC>
      %out = omnibal.rms_norm %d, %p1 {axis = -1 : i64, epsilon = 1.0e-3 : f64} : (tensor<1x?x8xf64, #NC>, tensor<8xf64>) -> tensor<1x?x8xf64, #NC>
      omnibal.yield %out : tensor<1x?x8xf64, #NC>
    }
    return
  }

  func.func @heads(%x: tensor<1x6x?x2xf64, #HND>, %k: tensor<1x3x?x2xf64, #KND>) {
    %wo = omnibal.get_parameter @wo : tensor<8x12xf64>
    %y = omnibal.layer "heads" language inputs(%x, %k) parameters(%wo)
      : (tensor<1x6x?x2xf64, #HND>, tensor<1x3x?x2xf64, #KND>, tensor<8x12xf64>) -> tensor<1x?x8xf64, #NC> {
    ^bb0(%q2: tensor<1x6x?x2xf64, #HND>, %k2: tensor<1x3x?x2xf64, #KND>, %po: tensor<8x12xf64>):
      %cu = omnibal.batch_value "cu_seqlens" : tensor<?xi32, #N1>
      %o0, %lse = omnibal.attention %q2, %k2, %k2, %cu {scale = 0.7 : f64, mask_kind = 2 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0>} : (tensor<1x6x?x2xf64, #HND>, tensor<1x3x?x2xf64, #KND>, tensor<1x3x?x2xf64, #KND>, tensor<?xi32, #N1>) -> (tensor<1x6x?x2xf64, #HND>, tensor<1x6x?xf64, #HN>)
      %o1 = omnibal.transpose %o0 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x6x?x2xf64, #HND>) -> tensor<1x?x6x2xf64, #NHD>
      %o2 = omnibal.reshape %o1 : (tensor<1x?x6x2xf64, #NHD>) -> tensor<1x?x12xf64, #NQ>
      %o3 = omnibal.linear %o2, %po : (tensor<1x?x12xf64, #NQ>, tensor<8x12xf64>) -> tensor<1x?x8xf64, #NC>
      omnibal.yield %o3 : tensor<1x?x8xf64, #NC>
    }
    return
  }
}
