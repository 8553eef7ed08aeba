"""Programs of the networks for the digits that tests quantise."""

NET = """
block unit(x, channels, stride = 1) {
    return x |> conv(channels, kernel=3, stride=stride) |> batch_norm |> relu
}
net digits() {
    input image: f32[1, 8, 8]
    x = image |> unit(24) |> unit(48, stride=2)
    x = x + (x |> unit(48))
    output logits = x |> max_pool(3) |> global_avg_pool |> linear(10)
}
"""
FLAT = """net flat() {
    input image: f32[1, 8, 8]
    output logits = image |> flatten |> linear(32) |> relu |> linear(32) |> relu |> linear(10)
}"""
