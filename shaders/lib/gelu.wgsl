fn activate(v: f32) -> f32 {
    let z = abs(v) * 0.70710678;
    let t = 1.0 / fma(0.5, z, 1.0);
    var p = fma(t, 0.17087277, -0.82215223);
    p = fma(t, p, 1.48851587);
    p = fma(t, p, -1.13520398);
    p = fma(t, p, 0.27886807);
    p = fma(t, p, -0.18628806);
    p = fma(t, p, 0.09678418);
    p = fma(t, p, 0.37409196);
    p = fma(t, p, 1.00002368);
    p = fma(t, p, -1.26551223);
    let tail = 0.5 * t * exp(fma(-z, z, p));
    return v * select(tail, 1.0 - tail, v > 0.0);
}
