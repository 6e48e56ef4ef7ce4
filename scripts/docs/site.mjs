import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { ROOT } from "../source-graph.mjs";
import { assertAnchors, renderPage } from "./markdown.mjs";
import { LABELS, listPages, SECTIONS, toAddress, toLink } from "./pages.mjs";
import { escape } from "./paint.mjs";

/** Builds the documentation into `folder`: pages that need no script and no server. Returns their addresses. */
export function buildSite(folder) {
  const pages = listPages();
  const isPage = (file) => pages.includes(file);
  const rendered = pages.map((page) => renderPage(page, readFileSync(join(ROOT, page), "utf8"), isPage));
  assertAnchors(rendered);
  const titles = new Map(rendered.map(({ page, title }) => [page, LABELS[page] ?? title]));
  rmSync(folder, { recursive: true, force: true });
  for (const one of rendered) {
    const file = join(folder, toAddress(one.page));
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, toHtml(one, titles));
  }
  for (const name of ["style.css", "icon.svg"])
    copyFileSync(join(import.meta.dirname, name), join(folder, name));
  for (const name of readdirSync(join(ROOT, "docs")).filter((name) => name.endsWith(".svg")))
    copyFileSync(join(ROOT, "docs", name), join(folder, name));
  return rendered.map(({ page }) => toAddress(page));
}

function toHtml({ page, html, title, headings }, titles) {
  const root = "../".repeat(toAddress(page).split("/").length - 1);
  const name = title === "sluice" ? title : `${title} · sluice`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escape(name)}</title>
<link rel="icon" href="${root}icon.svg">
<link rel="stylesheet" href="${root}style.css">
</head>
<body>
<a class="skip" href="#content">Skip to the text</a>
<header><a class="brand" href="${root}index.html">sluice</a><a class="to-menu" href="#menu">Menu</a></header>
<div class="frame">
<main id="content">
${html}${toNeighbours(page, titles)}</main>
${toContents(headings)}
<nav id="menu" aria-label="Pages">
${SECTIONS.map((section) => toSection(section, page, titles)).join("\n")}
</nav>
</div>
</body>
</html>
`;
}

function toSection({ title, pages }, current, titles) {
  const items = pages.map((page) => {
    const mark = page === current ? ' aria-current="page"' : "";
    return `<li><a href="${toLink(current, page)}"${mark}>${escape(titles.get(page))}</a></li>`;
  });
  return `<section><h2>${title}</h2><ul>${items.join("")}</ul></section>`;
}

function toContents(headings) {
  const parts = headings.filter(({ depth }) => depth === 2);
  if (parts.length < 3) return "";
  const items = parts.map(({ id, title }) => `<li><a href="#${id}">${escape(title)}</a></li>`);
  return `<aside aria-label="On this page"><h2>On this page</h2><ul>${items.join("")}</ul></aside>`;
}

function toNeighbours(page, titles) {
  const order = SECTIONS.flatMap(({ pages }) => pages);
  const at = order.indexOf(page);
  if (at < 0) return "";
  const link = (other, rel, mark) =>
    other === undefined
      ? ""
      : `<a rel="${rel}" href="${toLink(page, other)}">${mark(escape(titles.get(other)))}</a>`;
  const before = link(order[at - 1], "prev", (title) => `← ${title}`);
  const after = link(order[at + 1], "next", (title) => `${title} →`);
  return `<footer>${before}${after}</footer>\n`;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const folder = join(ROOT, "dist", "docs");
  process.stdout.write(`docs: ${buildSite(folder).length} pages in dist/docs\n`);
}
