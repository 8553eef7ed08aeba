"""Contrast of the texts of a page that a browser shows, as WCAG 2.2 (level AA) asks for."""

from __future__ import annotations

LOW_CONTRAST = """(() => {
    const channels = text => { const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number); return [r, g, b, a]; };
    const blend = (top, below) => top.slice(0, 3).map((value, i) => value * top[3] + below[i] * (1 - top[3]));
    const linear = value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    const luminance = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
    const low = [], texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const element = texts.currentNode.parentElement, style = getComputedStyle(element), above = [];
        if (!texts.currentNode.data.trim() || !element.checkVisibility({visibilityProperty: true})) continue;
        for (let one = element; one !== null; one = one.parentElement) above.unshift(getComputedStyle(one));
        const paper = above.reduce((below, one) => blend(channels(one.backgroundColor), below), [255, 255, 255]);
        const opacity = above.reduce((product, one) => product * one.opacity, 1), color = channels(style.color);
        if (opacity < 0.1 || element.closest("svg") !== null) continue;
        const ink = blend([...color.slice(0, 3), color[3] * opacity], paper);
        const [light, dark] = [luminance(ink), luminance(paper)].sort((a, b) => b - a);
        const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
        if ((light + 0.05) / (dark + 0.05) < (large ? 3 : 4.5)) low.push(texts.currentNode.data.trim());
    }
    return low;
})()"""
"""Expression for the texts whose contrast is below 4.5, or below 3 if they are large."""
