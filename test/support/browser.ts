import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { chromium, type BrowserContext, type Page } from "playwright-core";

/** A real browser with an empty profile of its own, which is gone when it closes. */
export interface TestBrowser {
  readonly context: BrowserContext;
  page(): Promise<Page>;
  close(): Promise<void>;
}

export type RequiredBrowser =
  | { readonly path: string; readonly reason?: undefined }
  | { readonly path?: undefined; readonly reason: string };

/**
 * The browser's program, or the reason to skip the test that needs it. Under CI=true nothing is skipped: it throws.
 *
 *     const { path, reason } = requireBrowser();
 *     if (path === undefined) return skip(reason);
 *     const browser = await openBrowser(path);
 */
export function requireBrowser(): RequiredBrowser {
  const folders = (process.env["PATH"] ?? "").split(delimiter).filter(Boolean);
  const path = ["/usr/bin", ...folders].map((folder) => join(folder, "chromium")).find(existsSync);
  if (path !== undefined) return { path };
  const reason = "chromium is not on PATH; `npm test -- --all` installs it for the tests on Debian";
  if (process.env["CI"] === "true") throw new Error(`${reason}, and under CI=true it has to be there`);
  return { reason };
}

export async function openBrowser(path: string): Promise<TestBrowser> {
  const profile = await mkdtemp(join(tmpdir(), "sluice-browser-"));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: path,
    headless: true,
    args: FLAGS,
  });
  return {
    context,
    page: () => context.newPage(),
    async close() {
      await context.close();
      await rm(profile, { recursive: true, force: true });
    },
  };
}

const FLAGS = [
  "--headless=new",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
