// A small vision-language model in form L: two equal vision blocks, projector, merge, two equal
// language blocks, head. V tiles of 4 patches, 2 rows of the language model a tile.
#vp = affine_map<(d0, d1) -> (d0, 4, 6)>
#v8 = affine_map<(d0, d1) -> (d0, 4, 8)>
#vr = affine_map<(d0, d1) -> (d0 * 4, 8)>
#v16 = affine_map<(d0, d1) -> (d0, 4, 16)>
#vh = affine_map<(d0, d1) -> (d0, 4, 2, 4)>
#va = affine_map<(d0, d1) -> (d0, 2, 4, 4)>
#vl = affine_map<(d0, d1) -> (d0, 2, 4)>
#vf = affine_map<(d0, d1) -> (d0, 2, 16)>
#v28 = affine_map<(d0, d1) -> (d0, 2, 8)>
#n = affine_map<(d0, d1) -> (d1)>
#n1 = affine_map<(d0, d1) -> (d1 + 1)>
#n8 = affine_map<(d0, d1) -> (1, d1, 8)>
#n4 = affine_map<(d0, d1) -> (1, d1, 4)>
#n12 = affine_map<(d0, d1) -> (1, d1, 12)>
#nh = affine_map<(d0, d1) -> (1, d1, 2, 4)>
#nk = affine_map<(d0, d1) -> (1, d1, 1, 4)>
#nq = affine_map<(d0, d1) -> (1, 2, d1, 4)>
#nka = affine_map<(d0, d1) -> (1, 1, d1, 4)>
#nl = affine_map<(d0, d1) -> (1, 2, d1)>
#nw = affine_map<(d0, d1) -> (1, d1, 11)>
#n28 = affine_map<(d0, d1) -> (d1, 8)>
#v24 = affine_map<(d0, d1) -> (d0, 4, 24)>
#v322 = affine_map<(d0, d1) -> (d0, 4, 3, 2, 4)>
#v1 = affine_map<(d0, d1) -> (d0, 4, 1, 2, 4)>
!pixels = tensor<?x4x6xf32, #vp>
!v8 = tensor<?x4x8xf32, #v8>
!v16 = tensor<?x4x16xf32, #v16>
!vh = tensor<?x4x2x4xf32, #vh>
!va = tensor<?x2x4x4xf32, #va>
!vl = tensor<?x2x4xf32, #vl>
!vf = tensor<?x2x16xf32, #vf>
!features = tensor<?x2x8xf32, #v28>
!ids = tensor<?xi32, #n>
!borders = tensor<?xi32, #n1>
!h = tensor<1x?x8xf32, #n8>
!k = tensor<1x?x4xf32, #n4>
!g = tensor<1x?x12xf32, #n12>
!qh = tensor<1x?x2x4xf32, #nh>
!kh = tensor<1x?x1x4xf32, #nk>
!q = tensor<1x2x?x4xf32, #nq>
!ka = tensor<1x1x?x4xf32, #nka>
!lse = tensor<1x2x?xf32, #nl>
!logits = tensor<1x?x11xf32, #nw>
!h2 = tensor<?x8xf32, #n28>
!v24 = tensor<?x4x24xf32, #v24>
!v322 = tensor<?x4x3x2x4xf32, #v322>
!v1 = tensor<?x4x1x2x4xf32, #v1>
omnibal.parameter @vision.patch : tensor<8x6xf32>
omnibal.parameter @vision.patch_bias : tensor<8xf32>
omnibal.parameter @vision.position : tensor<4x8xf32>
omnibal.parameter @vision.0.norm1 : tensor<8xf32>
omnibal.parameter @vision.0.norm1_bias : tensor<8xf32>
omnibal.parameter @vision.0.qkv : tensor<24x8xf32>
omnibal.parameter @vision.0.qkv_bias : tensor<24xf32>
omnibal.parameter @vision.0.out : tensor<8x8xf32>
omnibal.parameter @vision.0.scale : tensor<8xf32>
omnibal.parameter @vision.0.norm2 : tensor<8xf32>
omnibal.parameter @vision.0.fc1 : tensor<16x8xf32>
omnibal.parameter @vision.0.fc1_bias : tensor<16xf32>
omnibal.parameter @vision.0.fc2 : tensor<8x16xf32>
omnibal.parameter @vision.1.norm1 : tensor<8xf32>
omnibal.parameter @vision.1.norm1_bias : tensor<8xf32>
omnibal.parameter @vision.1.qkv : tensor<24x8xf32>
omnibal.parameter @vision.1.qkv_bias : tensor<24xf32>
omnibal.parameter @vision.1.out : tensor<8x8xf32>
omnibal.parameter @vision.1.scale : tensor<8xf32>
omnibal.parameter @vision.1.norm2 : tensor<8xf32>
omnibal.parameter @vision.1.fc1 : tensor<16x8xf32>
omnibal.parameter @vision.1.fc1_bias : tensor<16xf32>
omnibal.parameter @vision.1.fc2 : tensor<8x16xf32>
omnibal.parameter @projector.fc : tensor<8x16xf32>
omnibal.parameter @projector.bias : tensor<8xf32>
omnibal.parameter @text.embedding : tensor<11x8xf32>
omnibal.parameter @text.0.norm1 : tensor<8xf32>
omnibal.parameter @text.0.q : tensor<8x8xf32>
omnibal.parameter @text.0.q_bias : tensor<8xf32>
omnibal.parameter @text.0.k : tensor<4x8xf32>
omnibal.parameter @text.0.v : tensor<4x8xf32>
omnibal.parameter @text.0.o : tensor<8x8xf32>
omnibal.parameter @text.0.norm2 : tensor<8xf32>
omnibal.parameter @text.0.gate : tensor<12x8xf32>
omnibal.parameter @text.0.up : tensor<12x8xf32>
omnibal.parameter @text.0.down : tensor<8x12xf32>
omnibal.parameter @text.1.norm1 : tensor<8xf32>
omnibal.parameter @text.1.q : tensor<8x8xf32>
omnibal.parameter @text.1.q_bias : tensor<8xf32>
omnibal.parameter @text.1.k : tensor<4x8xf32>
omnibal.parameter @text.1.v : tensor<4x8xf32>
omnibal.parameter @text.1.o : tensor<8x8xf32>
omnibal.parameter @text.1.norm2 : tensor<8xf32>
omnibal.parameter @text.1.gate : tensor<12x8xf32>
omnibal.parameter @text.1.up : tensor<12x8xf32>
omnibal.parameter @text.1.down : tensor<8x12xf32>
omnibal.parameter @text.norm : tensor<8xf32>
omnibal.parameter @text.head : tensor<11x8xf32>
func.func @main() -> (!logits {omnibal.output = "logits"}) {
  %vision_patch = omnibal.get_parameter @vision.patch : tensor<8x6xf32>
  %vision_patch_bias = omnibal.get_parameter @vision.patch_bias : tensor<8xf32>
  %vision_position = omnibal.get_parameter @vision.position : tensor<4x8xf32>
  %vision_0_norm1 = omnibal.get_parameter @vision.0.norm1 : tensor<8xf32>
  %vision_0_norm1_bias = omnibal.get_parameter @vision.0.norm1_bias : tensor<8xf32>
  %vision_0_qkv = omnibal.get_parameter @vision.0.qkv : tensor<24x8xf32>
  %vision_0_qkv_bias = omnibal.get_parameter @vision.0.qkv_bias : tensor<24xf32>
  %vision_0_out = omnibal.get_parameter @vision.0.out : tensor<8x8xf32>
  %vision_0_scale = omnibal.get_parameter @vision.0.scale : tensor<8xf32>
  %vision_0_norm2 = omnibal.get_parameter @vision.0.norm2 : tensor<8xf32>
  %vision_0_fc1 = omnibal.get_parameter @vision.0.fc1 : tensor<16x8xf32>
  %vision_0_fc1_bias = omnibal.get_parameter @vision.0.fc1_bias : tensor<16xf32>
  %vision_0_fc2 = omnibal.get_parameter @vision.0.fc2 : tensor<8x16xf32>
  %vision_1_norm1 = omnibal.get_parameter @vision.1.norm1 : tensor<8xf32>
  %vision_1_norm1_bias = omnibal.get_parameter @vision.1.norm1_bias : tensor<8xf32>
  %vision_1_qkv = omnibal.get_parameter @vision.1.qkv : tensor<24x8xf32>
  %vision_1_qkv_bias = omnibal.get_parameter @vision.1.qkv_bias : tensor<24xf32>
  %vision_1_out = omnibal.get_parameter @vision.1.out : tensor<8x8xf32>
  %vision_1_scale = omnibal.get_parameter @vision.1.scale : tensor<8xf32>
  %vision_1_norm2 = omnibal.get_parameter @vision.1.norm2 : tensor<8xf32>
  %vision_1_fc1 = omnibal.get_parameter @vision.1.fc1 : tensor<16x8xf32>
  %vision_1_fc1_bias = omnibal.get_parameter @vision.1.fc1_bias : tensor<16xf32>
  %vision_1_fc2 = omnibal.get_parameter @vision.1.fc2 : tensor<8x16xf32>
  %projector_fc = omnibal.get_parameter @projector.fc : tensor<8x16xf32>
  %projector_bias = omnibal.get_parameter @projector.bias : tensor<8xf32>
  %text_embedding = omnibal.get_parameter @text.embedding : tensor<11x8xf32>
  %text_0_norm1 = omnibal.get_parameter @text.0.norm1 : tensor<8xf32>
  %text_0_q = omnibal.get_parameter @text.0.q : tensor<8x8xf32>
  %text_0_q_bias = omnibal.get_parameter @text.0.q_bias : tensor<8xf32>
  %text_0_k = omnibal.get_parameter @text.0.k : tensor<4x8xf32>
  %text_0_v = omnibal.get_parameter @text.0.v : tensor<4x8xf32>
  %text_0_o = omnibal.get_parameter @text.0.o : tensor<8x8xf32>
  %text_0_norm2 = omnibal.get_parameter @text.0.norm2 : tensor<8xf32>
  %text_0_gate = omnibal.get_parameter @text.0.gate : tensor<12x8xf32>
  %text_0_up = omnibal.get_parameter @text.0.up : tensor<12x8xf32>
  %text_0_down = omnibal.get_parameter @text.0.down : tensor<8x12xf32>
  %text_1_norm1 = omnibal.get_parameter @text.1.norm1 : tensor<8xf32>
  %text_1_q = omnibal.get_parameter @text.1.q : tensor<8x8xf32>
  %text_1_q_bias = omnibal.get_parameter @text.1.q_bias : tensor<8xf32>
  %text_1_k = omnibal.get_parameter @text.1.k : tensor<4x8xf32>
  %text_1_v = omnibal.get_parameter @text.1.v : tensor<4x8xf32>
  %text_1_o = omnibal.get_parameter @text.1.o : tensor<8x8xf32>
  %text_1_norm2 = omnibal.get_parameter @text.1.norm2 : tensor<8xf32>
  %text_1_gate = omnibal.get_parameter @text.1.gate : tensor<12x8xf32>
  %text_1_up = omnibal.get_parameter @text.1.up : tensor<12x8xf32>
  %text_1_down = omnibal.get_parameter @text.1.down : tensor<8x12xf32>
  %text_norm = omnibal.get_parameter @text.norm : tensor<8xf32>
  %text_head = omnibal.get_parameter @text.head : tensor<11x8xf32>
  %vis0 = omnibal.layer "vision.embedding" vision inputs() parameters(%vision_patch, %vision_patch_bias, %vision_position)
      : (tensor<8x6xf32>, tensor<8xf32>, tensor<4x8xf32>) -> !v8 {
  ^bb0(%patch: tensor<8x6xf32>, %patch_bias: tensor<8xf32>, %position: tensor<4x8xf32>):
    %pixels = omnibal.batch_value "pixel_values" : !pixels
    %0 = omnibal.linear %pixels, %patch, %patch_bias : (!pixels, tensor<8x6xf32>, tensor<8xf32>) -> !v8
    %1 = omnibal.add %0, %position : (!v8, tensor<4x8xf32>) -> !v8
    omnibal.yield %1 : !v8
  }
  %vis1 = omnibal.layer "vision.layers.0" vision inputs(%vis0) parameters(%vision_0_norm1, %vision_0_norm1_bias, %vision_0_qkv, %vision_0_qkv_bias, %vision_0_out, %vision_0_scale, %vision_0_norm2, %vision_0_fc1, %vision_0_fc1_bias, %vision_0_fc2)
      : (!v8, tensor<8xf32>, tensor<8xf32>, tensor<24x8xf32>, tensor<24xf32>, tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16x8xf32>, tensor<16xf32>, tensor<8x16xf32>) -> !v8 {
  ^bb0(%x: !v8, %norm1: tensor<8xf32>, %norm1_bias: tensor<8xf32>, %qkv: tensor<24x8xf32>, %qkv_bias: tensor<24xf32>, %out: tensor<8x8xf32>, %scale: tensor<8xf32>, %norm2: tensor<8xf32>, %fc1: tensor<16x8xf32>, %fc1_bias: tensor<16xf32>, %fc2: tensor<8x16xf32>):
    %n1 = omnibal.layer_norm %x, %norm1, %norm1_bias {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (!v8, tensor<8xf32>, tensor<8xf32>) -> !v8
    %all = omnibal.linear %n1, %qkv, %qkv_bias : (!v8, tensor<24x8xf32>, tensor<24xf32>) -> !v24
    %split = omnibal.reshape %all : (!v24) -> !v322
    %q0 = omnibal.slice %split {begin = array<i64: 0, 0, 0, 0, 0>, step = array<i64: 1, 1, 1, 1, 1>, operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>} : (!v322) -> !v1
    %q1 = omnibal.reshape %q0 : (!v1) -> !vh
    %q = omnibal.transpose %q1 {permutation = array<i64: 0, 2, 1, 3>} : (!vh) -> !va
    %k0 = omnibal.slice %split {begin = array<i64: 0, 0, 1, 0, 0>, step = array<i64: 1, 1, 1, 1, 1>, operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>} : (!v322) -> !v1
    %k1 = omnibal.reshape %k0 : (!v1) -> !vh
    %k = omnibal.transpose %k1 {permutation = array<i64: 0, 2, 1, 3>} : (!vh) -> !va
    %v0 = omnibal.slice %split {begin = array<i64: 0, 0, 2, 0, 0>, step = array<i64: 1, 1, 1, 1, 1>, operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>} : (!v322) -> !v1
    %v1 = omnibal.reshape %v0 : (!v1) -> !vh
    %v = omnibal.transpose %v1 {permutation = array<i64: 0, 2, 1, 3>} : (!vh) -> !va
    %a, %lse = omnibal.attention %q, %k, %v {scale = 0.5 : f64, mask_kind = 1 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>} : (!va, !va, !va) -> (!va, !vl)
    %at = omnibal.transpose %a {permutation = array<i64: 0, 2, 1, 3>} : (!va) -> !vh
    %ar = omnibal.reshape %at : (!vh) -> !v8
    %o = omnibal.linear %ar, %out : (!v8, tensor<8x8xf32>) -> !v8
    %os = omnibal.mul %o, %scale : (!v8, tensor<8xf32>) -> !v8
    %x1 = omnibal.add %x, %os : (!v8, !v8) -> !v8
    %n2 = omnibal.rms_norm %x1, %norm2 {axis = 2 : i64, epsilon = 1.0e-6 : f64} : (!v8, tensor<8xf32>) -> !v8
    %f = omnibal.linear %n2, %fc1, %fc1_bias : (!v8, tensor<16x8xf32>, tensor<16xf32>) -> !v16
    %gelu = omnibal.gelu %f : (!v16) -> !v16
    %f2 = omnibal.linear %gelu, %fc2 : (!v16, tensor<8x16xf32>) -> !v8
    %x2 = omnibal.add %x1, %f2 : (!v8, !v8) -> !v8
    omnibal.yield %x2 : !v8
  }
  %vis2 = omnibal.layer "vision.layers.1" vision inputs(%vis1) parameters(%vision_1_norm1, %vision_1_norm1_bias, %vision_1_qkv, %vision_1_qkv_bias, %vision_1_out, %vision_1_scale, %vision_1_norm2, %vision_1_fc1, %vision_1_fc1_bias, %vision_1_fc2)
      : (!v8, tensor<8xf32>, tensor<8xf32>, tensor<24x8xf32>, tensor<24xf32>, tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16x8xf32>, tensor<16xf32>, tensor<8x16xf32>) -> !v8 {
  ^bb0(%x: !v8, %norm1: tensor<8xf32>, %norm1_bias: tensor<8xf32>, %qkv: tensor<24x8xf32>, %qkv_bias: tensor<24xf32>, %out: tensor<8x8xf32>, %scale: tensor<8xf32>, %norm2: tensor<8xf32>, %fc1: tensor<16x8xf32>, %fc1_bias: tensor<16xf32>, %fc2: tensor<8x16xf32>):
    %n1 = omnibal.layer_norm %x, %norm1, %norm1_bias {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (!v8, tensor<8xf32>, tensor<8xf32>) -> !v8
    %all = omnibal.linear %n1, %qkv, %qkv_bias : (!v8, tensor<24x8xf32>, tensor<24xf32>) -> !v24
    %split = omnibal.reshape %all : (!v24) -> !v322
    %q0 = omnibal.slice %split {begin = array<i64: 0, 0, 0, 0, 0>, step = array<i64: 1, 1, 1, 1, 1>, operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>} : (!v322) -> !v1
    %q1 = omnibal.reshape %q0 : (!v1) -> !vh
    %q = omnibal.transpose %q1 {permutation = array<i64: 0, 2, 1, 3>} : (!vh) -> !va
    %k0 = omnibal.slice %split {begin = array<i64: 0, 0, 1, 0, 0>, step = array<i64: 1, 1, 1, 1, 1>, operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>} : (!v322) -> !v1
    %k1 = omnibal.reshape %k0 : (!v1) -> !vh
    %k = omnibal.transpose %k1 {permutation = array<i64: 0, 2, 1, 3>} : (!vh) -> !va
    %v0 = omnibal.slice %split {begin = array<i64: 0, 0, 2, 0, 0>, step = array<i64: 1, 1, 1, 1, 1>, operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>} : (!v322) -> !v1
    %v1 = omnibal.reshape %v0 : (!v1) -> !vh
    %v = omnibal.transpose %v1 {permutation = array<i64: 0, 2, 1, 3>} : (!vh) -> !va
    %a, %lse = omnibal.attention %q, %k, %v {scale = 0.5 : f64, mask_kind = 1 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>} : (!va, !va, !va) -> (!va, !vl)
    %at = omnibal.transpose %a {permutation = array<i64: 0, 2, 1, 3>} : (!va) -> !vh
    %ar = omnibal.reshape %at : (!vh) -> !v8
    %o = omnibal.linear %ar, %out : (!v8, tensor<8x8xf32>) -> !v8
    %os = omnibal.mul %o, %scale : (!v8, tensor<8xf32>) -> !v8
    %x1 = omnibal.add %x, %os : (!v8, !v8) -> !v8
    %n2 = omnibal.rms_norm %x1, %norm2 {axis = 2 : i64, epsilon = 1.0e-6 : f64} : (!v8, tensor<8xf32>) -> !v8
    %f = omnibal.linear %n2, %fc1, %fc1_bias : (!v8, tensor<16x8xf32>, tensor<16xf32>) -> !v16
    %gelu = omnibal.gelu %f : (!v16) -> !v16
    %f2 = omnibal.linear %gelu, %fc2 : (!v16, tensor<8x16xf32>) -> !v8
    %x2 = omnibal.add %x1, %f2 : (!v8, !v8) -> !v8
    omnibal.yield %x2 : !v8
  }
  %image = omnibal.layer "projector" projector inputs(%vis2) parameters(%projector_fc, %projector_bias)
      : (!v8, tensor<8x16xf32>, tensor<8xf32>) -> !features {
  ^bb0(%x: !v8, %fc: tensor<8x16xf32>, %bias: tensor<8xf32>):
    %0 = omnibal.reshape %x : (!v8) -> !vf
    %1 = omnibal.linear %0, %fc, %bias : (!vf, tensor<8x16xf32>, tensor<8xf32>) -> !features
    omnibal.yield %1 : !features
  }
  %lang0 = omnibal.layer "language.embedding" language inputs(%image) parameters(%text_embedding)
      : (!features, tensor<11x8xf32>) -> !h {
  ^bb0(%features: !features, %embedding: tensor<11x8xf32>):
    %ids = omnibal.batch_value "input_ids" : !ids
    %rows = omnibal.batch_value "image_rows" : !ids
    %0 = omnibal.embedding %embedding, %ids : (tensor<11x8xf32>, !ids) -> !h2
    %1 = omnibal.reshape %0 : (!h2) -> !h
    %2 = omnibal.image_merge %1, %features, %rows : (!h, !features, !ids) -> !h
    omnibal.yield %2 : !h
  }
  %lang1 = omnibal.layer "language.layers.0" language inputs(%lang0) parameters(%text_0_norm1, %text_0_q, %text_0_q_bias, %text_0_k, %text_0_v, %text_0_o, %text_0_norm2, %text_0_gate, %text_0_up, %text_0_down)
      : (!h, tensor<8xf32>, tensor<8x8xf32>, tensor<8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>, tensor<12x8xf32>, tensor<12x8xf32>, tensor<8x12xf32>) -> !h {
  ^bb0(%x: !h, %norm1: tensor<8xf32>, %q: tensor<8x8xf32>, %q_bias: tensor<8xf32>, %k: tensor<4x8xf32>, %v: tensor<4x8xf32>, %o: tensor<8x8xf32>, %norm2: tensor<8xf32>, %gate: tensor<12x8xf32>, %up: tensor<12x8xf32>, %down: tensor<8x12xf32>):
    %positions = omnibal.batch_value "positions" : !ids
    %borders = omnibal.batch_value "cu_seqlens" : !borders
    %cos = omnibal.constant dense<[[1.00000000e+00, 1.00000000e+00, 1.00000000e+00, 1.00000000e+00], [5.40302306e-01, 9.95004165e-01, 5.40302306e-01, 9.95004165e-01], [-4.16146837e-01, 9.80066578e-01, -4.16146837e-01, 9.80066578e-01], [-9.89992497e-01, 9.55336489e-01, -9.89992497e-01, 9.55336489e-01], [-6.53643621e-01, 9.21060994e-01, -6.53643621e-01, 9.21060994e-01], [2.83662185e-01, 8.77582562e-01, 2.83662185e-01, 8.77582562e-01], [9.60170287e-01, 8.25335615e-01, 9.60170287e-01, 8.25335615e-01], [7.53902254e-01, 7.64842187e-01, 7.53902254e-01, 7.64842187e-01], [-1.45500034e-01, 6.96706709e-01, -1.45500034e-01, 6.96706709e-01], [-9.11130262e-01, 6.21609968e-01, -9.11130262e-01, 6.21609968e-01], [-8.39071529e-01, 5.40302306e-01, -8.39071529e-01, 5.40302306e-01], [4.42569799e-03, 4.53596121e-01, 4.42569799e-03, 4.53596121e-01], [8.43853959e-01, 3.62357754e-01, 8.43853959e-01, 3.62357754e-01], [9.07446781e-01, 2.67498829e-01, 9.07446781e-01, 2.67498829e-01], [1.36737218e-01, 1.69967143e-01, 1.36737218e-01, 1.69967143e-01], [-7.59687913e-01, 7.07372017e-02, -7.59687913e-01, 7.07372017e-02]]> : tensor<16x4xf32>
    %sin = omnibal.constant dense<[[0.00000000e+00, 0.00000000e+00, 0.00000000e+00, 0.00000000e+00], [8.41470985e-01, 9.98334166e-02, 8.41470985e-01, 9.98334166e-02], [9.09297427e-01, 1.98669331e-01, 9.09297427e-01, 1.98669331e-01], [1.41120008e-01, 2.95520207e-01, 1.41120008e-01, 2.95520207e-01], [-7.56802495e-01, 3.89418342e-01, -7.56802495e-01, 3.89418342e-01], [-9.58924275e-01, 4.79425539e-01, -9.58924275e-01, 4.79425539e-01], [-2.79415498e-01, 5.64642473e-01, -2.79415498e-01, 5.64642473e-01], [6.56986599e-01, 6.44217687e-01, 6.56986599e-01, 6.44217687e-01], [9.89358247e-01, 7.17356091e-01, 9.89358247e-01, 7.17356091e-01], [4.12118485e-01, 7.83326910e-01, 4.12118485e-01, 7.83326910e-01], [-5.44021111e-01, 8.41470985e-01, -5.44021111e-01, 8.41470985e-01], [-9.99990207e-01, 8.91207360e-01, -9.99990207e-01, 8.91207360e-01], [-5.36572918e-01, 9.32039086e-01, -5.36572918e-01, 9.32039086e-01], [4.20167037e-01, 9.63558185e-01, 4.20167037e-01, 9.63558185e-01], [9.90607356e-01, 9.85449730e-01, 9.90607356e-01, 9.85449730e-01], [6.50287840e-01, 9.97494987e-01, 6.50287840e-01, 9.97494987e-01]]> : tensor<16x4xf32>
    %n1 = omnibal.rms_norm %x, %norm1 {axis = 2 : i64, epsilon = 1.0e-6 : f64} : (!h, tensor<8xf32>) -> !h
    %q0 = omnibal.linear %n1, %q, %q_bias : (!h, tensor<8x8xf32>, tensor<8xf32>) -> !h
    %k0 = omnibal.linear %n1, %k : (!h, tensor<4x8xf32>) -> !k
    %v0 = omnibal.linear %n1, %v : (!h, tensor<4x8xf32>) -> !k
    %q1 = omnibal.reshape %q0 : (!h) -> !qh
    %k1 = omnibal.reshape %k0 : (!k) -> !kh
    %v1 = omnibal.reshape %v0 : (!k) -> !kh
    %q2 = omnibal.transpose %q1 {permutation = array<i64: 0, 2, 1, 3>} : (!qh) -> !q
    %k2 = omnibal.transpose %k1 {permutation = array<i64: 0, 2, 1, 3>} : (!kh) -> !ka
    %v2 = omnibal.transpose %v1 {permutation = array<i64: 0, 2, 1, 3>} : (!kh) -> !ka
    %q3 = omnibal.rope %q2, %positions, %cos, %sin : (!q, !ids, tensor<16x4xf32>, tensor<16x4xf32>) -> !q
    %k3 = omnibal.rope %k2, %positions, %cos, %sin : (!ka, !ids, tensor<16x4xf32>, tensor<16x4xf32>) -> !ka
    %a, %lse = omnibal.attention %q3, %k3, %v2, %borders {scale = 0.5 : f64, mask_kind = 2 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0>} : (!q, !ka, !ka, !borders) -> (!q, !lse)
    %at = omnibal.transpose %a {permutation = array<i64: 0, 2, 1, 3>} : (!q) -> !qh
    %ar = omnibal.reshape %at : (!qh) -> !h
    %ao = omnibal.linear %ar, %o : (!h, tensor<8x8xf32>) -> !h
    %x1 = omnibal.add %x, %ao : (!h, !h) -> !h
    %n2 = omnibal.rms_norm %x1, %norm2 {axis = 2 : i64, epsilon = 1.0e-6 : f64} : (!h, tensor<8xf32>) -> !h
    %g = omnibal.linear %n2, %gate : (!h, tensor<12x8xf32>) -> !g
    %u = omnibal.linear %n2, %up : (!h, tensor<12x8xf32>) -> !g
    %s = omnibal.silu %g : (!g) -> !g
    %su = omnibal.mul %s, %u : (!g, !g) -> !g
    %d = omnibal.linear %su, %down : (!g, tensor<8x12xf32>) -> !h
    %x2 = omnibal.add %x1, %d : (!h, !h) -> !h
    omnibal.yield %x2 : !h
  }
  %lang2 = omnibal.layer "language.layers.1" language inputs(%lang1) parameters(%text_1_norm1, %text_1_q, %text_1_q_bias, %text_1_k, %text_1_v, %text_1_o, %text_1_norm2, %text_1_gate, %text_1_up, %text_1_down)
      : (!h, tensor<8xf32>, tensor<8x8xf32>, tensor<8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>, tensor<12x8xf32>, tensor<12x8xf32>, tensor<8x12xf32>) -> !h {
  ^bb0(%x: !h, %norm1: tensor<8xf32>, %q: tensor<8x8xf32>, %q_bias: tensor<8xf32>, %k: tensor<4x8xf32>, %v: tensor<4x8xf32>, %o: tensor<8x8xf32>, %norm2: tensor<8xf32>, %gate: tensor<12x8xf32>, %up: tensor<12x8xf32>, %down: tensor<8x12xf32>):
    %positions = omnibal.batch_value "positions" : !ids
    %borders = omnibal.batch_value "cu_seqlens" : !borders
    %cos = omnibal.constant dense<[[1.00000000e+00, 1.00000000e+00, 1.00000000e+00, 1.00000000e+00], [5.40302306e-01, 9.95004165e-01, 5.40302306e-01, 9.95004165e-01], [-4.16146837e-01, 9.80066578e-01, -4.16146837e-01, 9.80066578e-01], [-9.89992497e-01, 9.55336489e-01, -9.89992497e-01, 9.55336489e-01], [-6.53643621e-01, 9.21060994e-01, -6.53643621e-01, 9.21060994e-01], [2.83662185e-01, 8.77582562e-01, 2.83662185e-01, 8.77582562e-01], [9.60170287e-01, 8.25335615e-01, 9.60170287e-01, 8.25335615e-01], [7.53902254e-01, 7.64842187e-01, 7.53902254e-01, 7.64842187e-01], [-1.45500034e-01, 6.96706709e-01, -1.45500034e-01, 6.96706709e-01], [-9.11130262e-01, 6.21609968e-01, -9.11130262e-01, 6.21609968e-01], [-8.39071529e-01, 5.40302306e-01, -8.39071529e-01, 5.40302306e-01], [4.42569799e-03, 4.53596121e-01, 4.42569799e-03, 4.53596121e-01], [8.43853959e-01, 3.62357754e-01, 8.43853959e-01, 3.62357754e-01], [9.07446781e-01, 2.67498829e-01, 9.07446781e-01, 2.67498829e-01], [1.36737218e-01, 1.69967143e-01, 1.36737218e-01, 1.69967143e-01], [-7.59687913e-01, 7.07372017e-02, -7.59687913e-01, 7.07372017e-02]]> : tensor<16x4xf32>
    %sin = omnibal.constant dense<[[0.00000000e+00, 0.00000000e+00, 0.00000000e+00, 0.00000000e+00], [8.41470985e-01, 9.98334166e-02, 8.41470985e-01, 9.98334166e-02], [9.09297427e-01, 1.98669331e-01, 9.09297427e-01, 1.98669331e-01], [1.41120008e-01, 2.95520207e-01, 1.41120008e-01, 2.95520207e-01], [-7.56802495e-01, 3.89418342e-01, -7.56802495e-01, 3.89418342e-01], [-9.58924275e-01, 4.79425539e-01, -9.58924275e-01, 4.79425539e-01], [-2.79415498e-01, 5.64642473e-01, -2.79415498e-01, 5.64642473e-01], [6.56986599e-01, 6.44217687e-01, 6.56986599e-01, 6.44217687e-01], [9.89358247e-01, 7.17356091e-01, 9.89358247e-01, 7.17356091e-01], [4.12118485e-01, 7.83326910e-01, 4.12118485e-01, 7.83326910e-01], [-5.44021111e-01, 8.41470985e-01, -5.44021111e-01, 8.41470985e-01], [-9.99990207e-01, 8.91207360e-01, -9.99990207e-01, 8.91207360e-01], [-5.36572918e-01, 9.32039086e-01, -5.36572918e-01, 9.32039086e-01], [4.20167037e-01, 9.63558185e-01, 4.20167037e-01, 9.63558185e-01], [9.90607356e-01, 9.85449730e-01, 9.90607356e-01, 9.85449730e-01], [6.50287840e-01, 9.97494987e-01, 6.50287840e-01, 9.97494987e-01]]> : tensor<16x4xf32>
    %n1 = omnibal.rms_norm %x, %norm1 {axis = 2 : i64, epsilon = 1.0e-6 : f64} : (!h, tensor<8xf32>) -> !h
    %q0 = omnibal.linear %n1, %q, %q_bias : (!h, tensor<8x8xf32>, tensor<8xf32>) -> !h
    %k0 = omnibal.linear %n1, %k : (!h, tensor<4x8xf32>) -> !k
    %v0 = omnibal.linear %n1, %v : (!h, tensor<4x8xf32>) -> !k
    %q1 = omnibal.reshape %q0 : (!h) -> !qh
    %k1 = omnibal.reshape %k0 : (!k) -> !kh
    %v1 = omnibal.reshape %v0 : (!k) -> !kh
    %q2 = omnibal.transpose %q1 {permutation = array<i64: 0, 2, 1, 3>} : (!qh) -> !q
    %k2 = omnibal.transpose %k1 {permutation = array<i64: 0, 2, 1, 3>} : (!kh) -> !ka
    %v2 = omnibal.transpose %v1 {permutation = array<i64: 0, 2, 1, 3>} : (!kh) -> !ka
    %q3 = omnibal.rope %q2, %positions, %cos, %sin : (!q, !ids, tensor<16x4xf32>, tensor<16x4xf32>) -> !q
    %k3 = omnibal.rope %k2, %positions, %cos, %sin : (!ka, !ids, tensor<16x4xf32>, tensor<16x4xf32>) -> !ka
    %a, %lse = omnibal.attention %q3, %k3, %v2, %borders {scale = 0.5 : f64, mask_kind = 2 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0>} : (!q, !ka, !ka, !borders) -> (!q, !lse)
    %at = omnibal.transpose %a {permutation = array<i64: 0, 2, 1, 3>} : (!q) -> !qh
    %ar = omnibal.reshape %at : (!qh) -> !h
    %ao = omnibal.linear %ar, %o : (!h, tensor<8x8xf32>) -> !h
    %x1 = omnibal.add %x, %ao : (!h, !h) -> !h
    %n2 = omnibal.rms_norm %x1, %norm2 {axis = 2 : i64, epsilon = 1.0e-6 : f64} : (!h, tensor<8xf32>) -> !h
    %g = omnibal.linear %n2, %gate : (!h, tensor<12x8xf32>) -> !g
    %u = omnibal.linear %n2, %up : (!h, tensor<12x8xf32>) -> !g
    %s = omnibal.silu %g : (!g) -> !g
    %su = omnibal.mul %s, %u : (!g, !g) -> !g
    %d = omnibal.linear %su, %down : (!g, tensor<8x12xf32>) -> !h
    %x2 = omnibal.add %x1, %d : (!h, !h) -> !h
    omnibal.yield %x2 : !h
  }
  %logits = omnibal.layer "head" head inputs(%lang2) parameters(%text_norm, %text_head)
      : (!h, tensor<8xf32>, tensor<11x8xf32>) -> !logits {
  ^bb0(%x: !h, %norm: tensor<8xf32>, %head: tensor<11x8xf32>):
    %n = omnibal.rms_norm %x, %norm {axis = 2 : i64, epsilon = 1.0e-6 : f64} : (!h, tensor<8xf32>) -> !h
    %l = omnibal.linear %n, %head : (!h, tensor<11x8xf32>) -> !logits
    omnibal.yield %l : !logits
  }
  return %logits : !logits
}
