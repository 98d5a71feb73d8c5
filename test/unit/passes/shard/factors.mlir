// One function a case of FactorTest.cpp, whose last op is divided in every way. Arguments are as in
// gradients.mlir; `t.ways` is the number of ways, counted by hand. V = 2, N = 5.
#N12 = affine_map<(d0, d1) -> (d1, 12)>
#V34 = affine_map<(d0, d1) -> (d0, 3, 4)>
#V12 = affine_map<(d0, d1) -> (d0 * 3, 4)>

// All whole, all copied; 4 rows as 4 or as 2 x 2, 2 of 1; no more: it is not linear.
func.func @gelu_over_axes(%x: tensor<4xf64>) -> tensor<4xf64> attributes {t.ways = 5} {
  %y = omnibal.gelu %x : (tensor<4xf64>) -> tensor<4xf64>
  return %y : tensor<4xf64>
}
// Whole, copied, either factor partial, rows (3), columns (5).
func.func @product(%x: tensor<3x5xf64>, %y: tensor<5xf64>) -> tensor<3x5xf64> attributes {t.ways = 6} {
  %z = omnibal.mul %x, %y : (tensor<3x5xf64>, tensor<5xf64>) -> tensor<3x5xf64>
  return %z : tensor<3x5xf64>
}
func.func @sum_of_partial(%x: tensor<3x5xf64>, %y: tensor<3x1xf64>) -> tensor<3x5xf64> attributes {t.ways = 5} {
  %z = omnibal.add %x, %y : (tensor<3x5xf64>, tensor<3x1xf64>) -> tensor<3x5xf64>
  return %z : tensor<3x5xf64>
}
func.func @softmax_of_rows(%x: tensor<3x5xf64>) -> tensor<3x5xf64> attributes {t.ways = 3} {
  %y = omnibal.softmax %x {axis = 1 : i64} : (tensor<3x5xf64>) -> tensor<3x5xf64>
  return %y : tensor<3x5xf64>
}
func.func @largest(%x: tensor<3x5xf64>) -> tensor<3xf64> attributes {t.ways = 3} {
  %y = omnibal.reduce %x {kind = 2 : i32, axes = array<i64: 1>} : (tensor<3x5xf64>) -> tensor<3xf64>
  return %y : tensor<3xf64>
}
// Whole, copied, partial, rows, and columns that are added.
func.func @mean_of_columns(%x: tensor<3x5xf64>) -> tensor<3x1xf64> attributes {t.ways = 5} {
  %y = omnibal.reduce %x {kind = 1 : i32, axes = array<i64: 1>, keepdims} : (tensor<3x5xf64>) -> tensor<3x1xf64>
  return %y : tensor<3x1xf64>
}
// Whole, copied, partial in x or in the weight (with the bias each), 3 rows, 7 inputs, 5 outputs.
func.func @linear_of_rows(%x: tensor<3x7xf64>, %w: tensor<5x7xf64>, %b: tensor<5xf64>) -> tensor<3x5xf64> attributes {t.ways = 7} {
  %y = omnibal.linear %x, %w, %b : (tensor<3x7xf64>, tensor<5x7xf64>, tensor<5xf64>) -> tensor<3x5xf64>
  return %y : tensor<3x5xf64>
}
// Whole, copied, 3 rows, and 5 columns, of whose squares parts have summands.
func.func @squares_of_rows(%w: tensor<3x5xf64>, %a: tensor<2x5xf64>, %b: tensor<3x2xf64>) -> tensor<3xf64> attributes {t.ways = 4} {
  %y = omnibal.row_squares %w, %a, %b {scale = 0.7 : f64} : (tensor<3x5xf64>, tensor<2x5xf64>, tensor<3x2xf64>) -> tensor<3xf64>
  return %y : tensor<3xf64>
}
func.func @squares_of_columns(%w: tensor<5x3xf64>, %a: tensor<2x5xf64>, %b: tensor<3x2xf64>) -> tensor<3xf64> attributes {t.ways = 4} {
  %y = omnibal.row_squares %w, %a, %b {scale = 0.7 : f64, in_out} : (tensor<5x3xf64>, tensor<2x5xf64>, tensor<3x2xf64>) -> tensor<3xf64>
  return %y : tensor<3xf64>
}
// Inputs as 12, 6 x 2, 6 (twice), 4 x 3, 4 (three times), 3 x 4, .. of the design's projections.
func.func @linear_of_tokens(%x: tensor<?x12xf64, #N12>, %w: tensor<12x12xf64>) -> tensor<?x12xf64, #N12> {
  %y = omnibal.linear %x, %w {in_out} : (tensor<?x12xf64, #N12>, tensor<12x12xf64>) -> tensor<?x12xf64, #N12>
  return %y : tensor<?x12xf64, #N12>
}
func.func @product_of_batches(%x: tensor<2x1x3x5xf64>, %y: tensor<3x7x5xf64>) -> tensor<2x3x3x7xf64> {
  %z = omnibal.matmul %x, %y {transpose_rhs} : (tensor<2x1x3x5xf64>, tensor<3x7x5xf64>) -> tensor<2x3x3x7xf64>
  return %z : tensor<2x3x3x7xf64>
}
func.func @rms_norm_of_heads(%x: tensor<3x2x5xf64>, %w: tensor<2x5xf64>) -> tensor<3x2x5xf64> attributes {t.ways = 5} {
  %y = omnibal.rms_norm %x, %w {axis = 1 : i64, epsilon = 1.0e-3 : f64} : (tensor<3x2x5xf64>, tensor<2x5xf64>) -> tensor<3x2x5xf64>
  return %y : tensor<3x2x5xf64>
}
func.func @layer_norm_of_columns(%x: tensor<3x5xf64>, %w: tensor<5xf64>, %b: tensor<5xf64>) -> tensor<3x5xf64> attributes {t.ways = 4} {
  %y = omnibal.layer_norm %x, %w, %b {axis = -1 : i64, epsilon = 1.0e-3 : f64} : (tensor<3x5xf64>, tensor<5xf64>, tensor<5xf64>) -> tensor<3x5xf64>
  return %y : tensor<3x5xf64>
}
// Whole, copied, partial, 7 rows, 3 heads of 5 features, 5 features of each head; not 15 of both.
func.func @heads_of_columns(%x: tensor<7x15xf64>) -> tensor<7x3x5xf64> attributes {t.ways = 6} {
  %y = omnibal.reshape %x : (tensor<7x15xf64>) -> tensor<7x3x5xf64>
  return %y : tensor<7x3x5xf64>
}
// Nothing divides: 6 x 2 elements as 4 x 3.
func.func @odd_reshape(%x: tensor<6x2xf64>) -> tensor<4x3xf64> attributes {t.ways = 3} {
  %y = omnibal.reshape %x : (tensor<6x2xf64>) -> tensor<4x3xf64>
  return %y : tensor<4x3xf64>
}
func.func @tiles_to_rows(%x: tensor<?x3x4xf64, #V34>) -> tensor<?x4xf64, #V12> {
  %y = omnibal.reshape %x : (tensor<?x3x4xf64, #V34>) -> tensor<?x4xf64, #V12>
  return %y : tensor<?x4xf64, #V12>
}
// Queries of a projection [3, 5]: the 5 stay together in both.
func.func @query_of_three(%x: tensor<2x15xf64>) -> tensor<2x5xf64> attributes {t.ways = 5} {
  %y = omnibal.slice %x {begin = array<i64: 0, 5>, operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>} : (tensor<2x15xf64>) -> tensor<2x5xf64>
  return %y : tensor<2x5xf64>
}
func.func @pad_of_units(%x: tensor<2x5xf64>) -> tensor<2x15xf64> attributes {t.ways = 5} {
  %y = omnibal.pad %x {low = array<i64: 0, 10>} : (tensor<2x5xf64>) -> tensor<2x15xf64>
  return %y : tensor<2x15xf64>
}
func.func @expand_rows(%x: tensor<1x3xf64>) -> tensor<5x3xf64> attributes {t.ways = 5} {
  %y = omnibal.expand %x : (tensor<1x3xf64>) -> tensor<5x3xf64>
  return %y : tensor<5x3xf64>
}
// Whole, copied, 3 key heads, 2 queries of each, and queries one by one as 6 or as 2 runs of 3;
// features and tokens stay.
func.func @grouped_attention(%q: tensor<1x6x4x2xf64>, %k: tensor<1x3x4x2xf64>, %v: tensor<1x3x4x5xf64>) -> (tensor<1x6x4x5xf64>, tensor<1x6x4xf64>) attributes {t.ways = 6} {
  %y, %l = omnibal.attention %q, %k, %v {scale = 0.5 : f64, mask_kind = 2 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>} : (tensor<1x6x4x2xf64>, tensor<1x3x4x2xf64>, tensor<1x3x4x5xf64>) -> (tensor<1x6x4x5xf64>, tensor<1x6x4xf64>)
  return %y, %l : tensor<1x6x4x5xf64>, tensor<1x6x4xf64>
}
// Whole, copied, partial table, 3 ids, 2 columns, 7 words of which each part has some rows.
func.func @words(%t: tensor<7x2xf64>) -> tensor<3x2xf64> attributes {t.ways = 6} {
  %i = omnibal.constant dense<[6, 0, 3]> : tensor<3xi32>
  %y = omnibal.embedding %t, %i : (tensor<7x2xf64>, tensor<3xi32>) -> tensor<3x2xf64>
  return %y : tensor<3x2xf64>
}
// Words and prediction of every row: whole, copied, 5 rows, 7 words.
func.func @losses(%h: tensor<5x3xf64>, %w: tensor<7x3xf64>) -> (tensor<5xf64>, tensor<5xi32>) attributes {t.ways = 4} {
  %t = omnibal.constant dense<[1, -1, 6, 0, 3]> : tensor<5xi32>
  %l, %p = omnibal.linear_cross_entropy %h, %w, %t : (tensor<5x3xf64>, tensor<7x3xf64>, tensor<5xi32>) -> (tensor<5xf64>, tensor<5xi32>)
  return %l, %p : tensor<5xf64>, tensor<5xi32>
}
// Words are counted from the outside: 6, or 2 or 3 of several.
func.func @losses_of_words(%h: tensor<5x3xf64>, %w: tensor<6x3xf64>, %b: tensor<6xf64>) -> (tensor<5xf64>, tensor<5xi32>) attributes {t.ways = 6} {
  %t = omnibal.constant dense<[1, -1, 5, 0, 3]> : tensor<5xi32>
  %l, %p = omnibal.linear_cross_entropy %h, %w, %b, %t {scale = 0.7 : f64, smoothing = 0.2 : f64, z = 0.1 : f64} : (tensor<5x3xf64>, tensor<6x3xf64>, tensor<6xf64>, tensor<5xi32>) -> (tensor<5xf64>, tensor<5xi32>)
  return %l, %p : tensor<5xf64>, tensor<5xi32>
}
func.func @losses_of_no_row(%h: tensor<2x3xf64>, %w: tensor<3x3xf64>) -> tensor<2xf64> attributes {t.ways = 4} {
  %t = omnibal.constant dense<[-1, -1]> : tensor<2xi32>
  %l = omnibal.linear_cross_entropy %h, %w, %t : (tensor<2x3xf64>, tensor<3x3xf64>, tensor<2xi32>) -> tensor<2xf64>
  return %l : tensor<2xf64>
}
func.func @compared(%x: tensor<3xf64>, %y: tensor<3xf64>) -> tensor<3xi1> attributes {t.ways = 3} {
  %z = omnibal.compare %x, %y {predicate = 1 : i32} : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
  return %z : tensor<3xi1>
}
func.func @signs(%x: tensor<3xf64>) -> tensor<3xf64> {
  %z = omnibal.sign %x : (tensor<3xf64>) -> tensor<3xf64>
  return %z : tensor<3xf64>
}
func.func @floors(%x: tensor<3xf64>) -> tensor<3xf64> {
  %z = omnibal.floor %x : (tensor<3xf64>) -> tensor<3xf64>
  return %z : tensor<3xf64>
}
func.func @not_a_number(%x: tensor<3xf64>) -> tensor<3xi1> {
  %z = omnibal.is_nan %x : (tensor<3xf64>) -> tensor<3xi1>
  return %z : tensor<3xi1>
}
func.func @remainders(%x: tensor<3xf64>, %y: tensor<3xf64> {t.range = [0.5, 1.0]}) -> tensor<3xf64> {
  %z = omnibal.mod %x, %y : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
  return %z : tensor<3xf64>
}
// Integers: copied or split, and whole is copied.
func.func @nots(%x: tensor<3xi1> {t.values = dense<[true, false, true]> : tensor<3xi1>}) -> tensor<3xi1> attributes {t.ways = 2} {
  %z = omnibal.not %x : (tensor<3xi1>) -> tensor<3xi1>
  return %z : tensor<3xi1>
}
func.func @ands(%x: tensor<3xi32> {t.values = dense<[1, 2, 3]> : tensor<3xi32>}, %y: tensor<3xi32> {t.values = dense<[6, 2, 1]> : tensor<3xi32>}) -> tensor<3xi32> {
  %z = omnibal.and %x, %y : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>
  return %z : tensor<3xi32>
}
func.func @ors(%x: tensor<3xi32> {t.values = dense<[1, 2, 3]> : tensor<3xi32>}, %y: tensor<3xi32> {t.values = dense<[6, 2, 1]> : tensor<3xi32>}) -> tensor<3xi32> {
  %z = omnibal.or %x, %y : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>
  return %z : tensor<3xi32>
}
func.func @xors(%x: tensor<3xi32> {t.values = dense<[1, 2, 3]> : tensor<3xi32>}, %y: tensor<3xi32> {t.values = dense<[6, 2, 1]> : tensor<3xi32>}) -> tensor<3xi32> {
  %z = omnibal.xor %x, %y : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>
  return %z : tensor<3xi32>
}
func.func @random(%k: tensor<5x1xi32> {t.values = dense<[[7], [-1], [0], [9], [12345]]> : tensor<5x1xi32>}, %c: tensor<4xi32> {t.values = dense<[0, 1, 2, 3]> : tensor<4xi32>}) -> tensor<5x4xf64> {
  %l = omnibal.constant dense<3> : tensor<i32>
  %u = omnibal.random_uniform %k, %c, %l {stream = 2 : i32} : (tensor<5x1xi32>, tensor<4xi32>, tensor<i32>) -> tensor<5x4xf64>
  return %u : tensor<5x4xf64>
}
func.func @largest_of_rows(%x: tensor<3x5xf64>) -> tensor<3x2xi64> attributes {t.ways = 3} {
  %z = omnibal.top_k %x {k = 2 : i64} : (tensor<3x5xf64>) -> tensor<3x2xi64>
  return %z : tensor<3x2xi64>
}
// Groups of 3: parts' queries begin and end in the middle of a key head's.
func.func @queries_one_by_one(%q: tensor<1x12x3x2xf64>, %k: tensor<1x4x3x2xf64>, %v: tensor<1x4x3x2xf64>, %s: tensor<12xf64>) -> (tensor<1x12x3x2xf64>, tensor<1x12x3xf64>) {
  %y, %l = omnibal.attention %q, %k, %v, %s {scale = 0.5 : f64, mask_kind = 2 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 1>} : (tensor<1x12x3x2xf64>, tensor<1x4x3x2xf64>, tensor<1x4x3x2xf64>, tensor<12xf64>) -> (tensor<1x12x3x2xf64>, tensor<1x12x3xf64>)
  return %y, %l : tensor<1x12x3x2xf64>, tensor<1x12x3xf64>
}
// Words that stay are counted from the outside: 6, or 2 or 3 of several, but no factor inside.
func.func @padded_words(%t: tensor<6x2xf64>) -> tensor<5x2xf64> attributes {t.ways = 8} {
  %i = omnibal.constant dense<[5, 0, 3, 3, 1]> : tensor<5xi32>
  %y = omnibal.embedding %t, %i {padding = 3 : i64} : (tensor<6x2xf64>, tensor<5xi32>) -> tensor<5x2xf64>
  return %y : tensor<5x2xf64>
}
func.func @pictures(%t: tensor<1x5x2xf64>, %f: tensor<?x3x2xf64, affine_map<(d0, d1) -> (d0, 3, 2)>>) -> tensor<1x5x2xf64> {
  %r = omnibal.constant dense<[-1, 5, 0, -1, 2]> : tensor<5xi32>
  %y = omnibal.image_merge %t, %f, %r : (tensor<1x5x2xf64>, tensor<?x3x2xf64, affine_map<(d0, d1) -> (d0, 3, 2)>>, tensor<5xi32>) -> tensor<1x5x2xf64>
  return %y : tensor<1x5x2xf64>
}
