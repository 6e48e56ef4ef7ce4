/**
 * Draws the flowcharts of the documents as SVG, so that a page needs no script. It knows the part of Mermaid that
 * scripts/architecture.mjs writes: groups of nodes, each a row (LR) or a column (TB), and arrows.
 */
export function drawFlowchart(text) {
  const groups = readGroups(text);
  const arrows = readArrows(text);
  const columns = groups.every(({ direction }) => direction === "TB");
  const nodes = columns ? placeColumns(groups) : placeRows(groups);
  const width = Math.max(...nodes.map(({ x, width: own }) => x + own)) + MARGIN;
  const height = Math.max(...nodes.map(({ y }) => y + HEIGHT)) + MARGIN;
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const lines = arrows.map(([from, to]) => drawArrow(byId.get(from), byId.get(to)));
  const titles = columns ? groups.map(({ title }, at) => drawTitle(title, at)) : [];
  return [
    `<div class="picture"><svg viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${describe(nodes, arrows)}">`,
    `<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z"/></marker></defs>`,
    ...titles,
    ...lines,
    ...nodes.map(drawNode),
    "</svg></div>",
  ].join("\n");
}

const [HEIGHT, GAP, MARGIN] = [60, 8, 4];
/** Six boxes of a row fit beside the navigation; a column has the longer names. */
const WIDTHS = { row: 108, column: 168 };
/** A line of text in a box has at most so many letters. */
const LETTERS = 17;
const ROW_GAP = 46;
const COLUMN_GAP = 60;
const TITLE = 26;

function readGroups(text) {
  const groups = [];
  for (const line of text.split("\n").map((line) => line.trim())) {
    const group = /^subgraph (\S+) \["(.*)"\]$/.exec(line);
    if (group) groups.push({ title: group[2].trim(), direction: "TB", nodes: [] });
    const direction = /^direction (\w+)$/.exec(line);
    if (direction) groups.at(-1).direction = direction[1];
    const node = /^([\w-]+)(\[|\(\[)"(.*)"(\]|\]\))$/.exec(line);
    if (node) groups.at(-1).nodes.push({ id: node[1], isEnd: node[2] === "([", lines: toLines(node[3]) });
  }
  return groups;
}

function toLines(label) {
  return label.split("<br/>").flatMap((line) => {
    if (line.includes("<b>")) return [line];
    const lines = [""];
    for (const word of line.split(" ")) {
      const longer = `${lines.at(-1)} ${word}`.trim();
      if (longer.length <= LETTERS) lines[lines.length - 1] = longer;
      else lines.push(word);
    }
    return lines;
  });
}

function readArrows(text) {
  return text.split("\n").flatMap((line) => {
    const path = line.trim().split(" --> ");
    return path.slice(1).map((to, at) => [path[at], to]);
  });
}

function placeRows(groups) {
  const width = WIDTHS.row;
  const widest = Math.max(...groups.map(({ nodes }) => nodes.length)) * (width + GAP) - GAP;
  return groups.flatMap(({ nodes }, row) => {
    const left = (widest - nodes.length * (width + GAP) + GAP) / 2;
    const y = MARGIN + row * (HEIGHT + ROW_GAP);
    return nodes.map((node, at) => ({ ...node, width, x: MARGIN + left + at * (width + GAP), y }));
  });
}

function placeColumns(groups) {
  const width = WIDTHS.column;
  return groups.flatMap(({ nodes }, column) => {
    const x = MARGIN + column * (width + COLUMN_GAP);
    return nodes.map((node, at) => ({ ...node, width, x, y: MARGIN + TITLE + at * (HEIGHT + GAP + 6) }));
  });
}

function drawTitle(title, column) {
  const x = MARGIN + column * (WIDTHS.column + COLUMN_GAP) + WIDTHS.column / 2;
  return `<text class="title" x="${x}" y="${MARGIN + 12}">${title}</text>`;
}

function drawNode({ x, y, width, lines, isEnd }) {
  const texts = lines.map((line, at) => {
    const offset = y + HEIGHT / 2 + (at - (lines.length - 1) / 2) * 15 + 4;
    const isName = line.includes("<b>");
    return `<text${isName ? ' class="name"' : ""} x="${x + width / 2}" y="${offset}">${line.replaceAll(/<\/?b>/g, "")}</text>`;
  });
  const box = `<rect x="${x}" y="${y}" width="${width}" height="${HEIGHT}" rx="${isEnd ? HEIGHT / 2 : 6}"/>`;
  return `<g${isEnd ? ' class="end"' : ""}>${box}${texts.join("")}</g>`;
}

function drawArrow(from, to) {
  const [x1, y1, x2, y2] = [from.x + from.width / 2, from.y + HEIGHT, to.x + to.width / 2, to.y];
  const bend = (y2 - y1) / 2;
  return `<path class="arrow" marker-end="url(#head)" d="M${x1} ${y1} C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2 - 1}"/>`;
}

function describe(nodes, arrows) {
  const names = new Map(nodes.map(({ id, lines }) => [id, lines[0].replaceAll(/<[^>]*>/g, "").trim()]));
  return arrows.map(([from, to]) => `${names.get(from)} to ${names.get(to)}`).join(", ");
}
