import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { listPages, SECTIONS } from "../../scripts/docs/pages.mjs";
import { buildSite } from "../../scripts/docs/site.mjs";

let folder: string;
let pages: string[];
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "sluice-site-"));
  pages = buildSite(folder);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("the site of the documentation", () => {
  it("has every page once, and all but the decision records in its navigation", () => {
    expect(new Set(pages).size).toBe(pages.length);
    const named = new Set(SECTIONS.flatMap((section) => section.pages));
    const unnamed = listPages().filter((page) => !named.has(page));
    expect(unnamed.filter((page) => !page.startsWith("docs/decisions/"))).toEqual([]);
  });

  it("has no dead link and no dead anchor", () => {
    const dead = pages.flatMap((page) => {
      const html = readFileSync(join(folder, page), "utf8");
      const links = [...html.matchAll(/(?:href|src)="([^"]*)"/g)].map(([, link = ""]) => link);
      return links.filter((link) => !isAlive(page, link)).map((link) => `${page}: ${link}`);
    });
    expect(dead).toEqual([]);
  });

  it("needs no script and no inline style", () => {
    for (const page of pages) {
      const html = readFileSync(join(folder, page), "utf8").replaceAll(/<pre[\s\S]*?<\/pre>/g, "");
      expect(html, page).not.toMatch(/<script|<style|\sstyle=|\son\w+=|javascript:/i);
      expect(html, page).toMatch(/<title>[^<]+<\/title>/);
      expect(html.match(/<h1[ >]/g), page).toHaveLength(1);
    }
  });

  it("draws the rooms", () => {
    const html = readFileSync(join(folder, "concepts.html"), "utf8");
    expect(html).toContain("<svg");
    for (const room of ["sessions", "dialects", "spool"])
      expect(html).toMatch(new RegExp(`<text[^>]*>${room}`));
  });

  function isAlive(page: string, link: string): boolean {
    if (/^https?:/.test(link)) return true;
    const [path = "", id] = link.split("#");
    const file = path === "" ? join(folder, page) : join(folder, dirname(page), path);
    if (!existsSync(file)) return false;
    return id === undefined || readFileSync(file, "utf8").includes(`id="${id}"`);
  }
});
