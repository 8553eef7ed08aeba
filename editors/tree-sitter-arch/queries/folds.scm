[(body) (params) (arguments) (sequence) (comprehension) (choose_one) (choose_value) (match)] @fold
