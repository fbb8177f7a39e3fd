struct Lane { in_second: bool, shifts: vec2u, masks: vec2u }
fn lane_of(chunk: u32) -> Lane {
    let i = chunk % 8u;
    let shifts = vec2u(i % 4u * 4u, i * 2u) - select(vec2u(), vec2u(2u, 12u), i >= 6u);
    return Lane(i >= 4u, shifts, select(vec2u(0x000f000fu, 0x00300030u), vec2u(0x003c003cu, 0x00030003u), i >= 6u));
}
fn load_scales(first: First, planes: Planes, chunk: u32) -> Scales {
    let header = weights[unit(first, planes.scales + chunk / 8u)];
    let lane = planes.lane;
    let four = select(header.y, header.z, lane.in_second) >> lane.shifts.x;
    let by = halves(header.x) * small((four & lane.masks.x) | ((header.w >> lane.shifts.y) & lane.masks.y));
    return vec2f(by.x, -by.y);
}
