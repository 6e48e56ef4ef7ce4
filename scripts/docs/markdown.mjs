import { existsSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { Marked } from "marked";
import { ROOT } from "../source-graph.mjs";
import { escape, paint } from "./paint.mjs";
import { drawFlowchart } from "./picture.mjs";
import { toLink } from "./pages.mjs";

/** The first cell of a row with at most so many letters is not broken into lines. */
const SHORT = 32;

/**
 * A page as HTML, with its title, its headings and its links to other pages. A link to a file that is no page becomes
 * plain text; one to nothing is an error.
 */
export function renderPage(page, text, isPage) {
  const headings = [];
  const links = [];
  const slugs = new Map();
  const marked = new Marked({
    gfm: true,
    renderer: {
      heading({ tokens, depth }) {
        const html = this.parser.parseInline(tokens);
        const title = toPlain(html);
        const id = unique(slugs, toSlug(title));
        headings.push({ depth, id, title });
        const anchor =
          depth === 1 ? "" : ` <a class="anchor" href="#${id}" aria-label="Link to this section">#</a>`;
        return `<h${depth} id="${id}">${html}${anchor}</h${depth}>\n`;
      },
      link({ href, tokens }) {
        const html = this.parser.parseInline(tokens);
        if (/^https?:/.test(href)) return `<a href="${escape(href)}" rel="noreferrer">${html}</a>`;
        const target = resolveLink(page, href, isPage);
        if (target === undefined) return html;
        links.push(target);
        const path = target.page === page ? "" : toLink(page, target.page);
        return `<a href="${path}${target.hash}">${html}</a>`;
      },
      image({ href, text: about }) {
        return `<img src="${escape(href)}" alt="${escape(about)}">`;
      },
      code({ text: code, lang = "" }) {
        if (lang === "mermaid") return drawFlowchart(code);
        const language = /^\w*/.exec(lang)?.[0] ?? "";
        return `<pre tabindex="0"><code>${paint(code, language)}</code></pre>\n`;
      },
      table(token) {
        const cell = (tag, { tokens, align, text: raw }, at) => {
          const name = align === "center" ? "center" : at === 0 && raw.length <= SHORT ? "short" : undefined;
          return `<${tag}${name ? ` class="${name}"` : ""}>${this.parser.parseInline(tokens)}</${tag}>`;
        };
        const head = `<tr>${token.header.map((entry, at) => cell("th", entry, at)).join("")}</tr>`;
        const rows = token.rows.map(
          (row) => `<tr>${row.map((entry, at) => cell("td", entry, at)).join("")}</tr>`,
        );
        return `<div class="table" tabindex="0"><table><thead>${head}</thead><tbody>${rows.join("\n")}</tbody></table></div>\n`;
      },
      // Raw HTML in a document is a marker of a generated part; nothing else passes.
      html: ({ text: html }) => (/^<!--[\s\S]*-->\s*$/.test(html) ? "" : escape(html)),
    },
  });
  const html = marked.parse(text);
  return { page, html, headings, links, title: headings[0]?.title ?? page };
}

/** Fails for a link whose heading does not exist on its page. */
export function assertAnchors(rendered) {
  const byPage = new Map(rendered.map((one) => [one.page, new Set(one.headings.map(({ id }) => id))]));
  for (const { page, links } of rendered)
    for (const { page: target, hash } of links)
      if (hash !== "" && !byPage.get(target)?.has(hash.slice(1)))
        throw new Error(`${page} links to ${target}${hash}, and there is no such heading`);
}

function resolveLink(page, href, isPage) {
  const [path, hash] = href.split(/(?=#)/);
  if (href.startsWith("#")) return { page, hash: href };
  const file = normalize(join(dirname(page), path)).replace(/\/$/, "");
  if (isPage(file)) return { page: file, hash: hash ?? "" };
  if (isPage(join(file, "README.md"))) return { page: join(file, "README.md"), hash: hash ?? "" };
  if (existsSync(join(ROOT, file))) return undefined;
  throw new Error(`${page} links to ${href}, and there is no such file`);
}

function toPlain(html) {
  const names = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'" };
  return html.replaceAll(/<[^>]*>/g, "").replaceAll(/&(?:amp|lt|gt|quot|#39);/g, (name) => names[name]);
}

/** As code hosts make them, so that a link works there too. */
function toSlug(title) {
  return title
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
    .trim()
    .replaceAll(" ", "-");
}

function unique(slugs, slug) {
  const count = slugs.get(slug) ?? 0;
  slugs.set(slug, count + 1);
  return count === 0 ? slug : `${slug}-${count}`;
}
