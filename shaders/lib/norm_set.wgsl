fn place(at: u32, value: vec4f) {
    y[at] = value;
}
