import { readdirSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { ROOT } from "../source-graph.mjs";

/** The navigation: every page of the site stands in it once, but for the decision records, which have an index. */
export const SECTIONS = [
  { title: "Start", pages: ["docs/README.md", "docs/start.md", "docs/concepts.md"] },
  {
    title: "Clients",
    pages: [
      "docs/universal.md",
      "docs/anthropic.md",
      "docs/ag-ui.md",
      "docs/tanstack.md",
      "docs/ndjson.md",
      "docs/sdk.md",
      "docs/webhooks.md",
    ],
  },
  {
    title: "Agents",
    pages: [
      "docs/agents/README.md",
      "docs/agents/claude.md",
      "docs/agents/codex.md",
      "docs/agents/opencode.md",
      "docs/agents/gemini.md",
      "docs/agents/grok.md",
      "docs/agents/amp.md",
      "docs/agents/acp.md",
      "docs/agents/scripted.md",
    ],
  },
  {
    title: "Sandboxes",
    pages: [
      "docs/sandboxes.md",
      "docs/sandboxes/bwrap.md",
      "docs/sandboxes/docker.md",
      "docs/sandboxes/local.md",
      "docs/sandboxes/ssh.md",
      "docs/sandboxes/kubernetes.md",
      "docs/sandboxes/e2b.md",
      "docs/sandboxes/daytona.md",
      "docs/sandboxes/vercel.md",
    ],
  },
  {
    title: "Operation",
    pages: [
      "docs/deployment.md",
      "docs/gateway.md",
      "docs/security.md",
      "docs/troubleshooting.md",
      "docs/versioning.md",
    ],
  },
  { title: "Reference", pages: ["docs/cli.md", "docs/http.md", "PROTOCOL.md", "CHANGELOG.md"] },
  {
    title: "Contribute",
    pages: [
      "CONTRIBUTING.md",
      "AGENTS.md",
      "docs/architecture.md",
      "docs/adding-an-agent.md",
      "docs/adding-a-dialect.md",
      "docs/adding-a-log.md",
      "docs/adding-a-sandbox.md",
      "docs/decisions/README.md",
      "SECURITY.md",
    ],
  },
];

/** Names in the navigation that are not the titles of their pages. */
export const LABELS = {
  "docs/README.md": "Overview",
  "docs/universal.md": "Universal, /v1",
  "docs/anthropic.md": "Managed Agents, /anthropic",
  "docs/ag-ui.md": "AG-UI, /ag-ui",
  "docs/ndjson.md": "NDJSON, /ndjson",
  "docs/agents/README.md": "All agents",
  "AGENTS.md": "The map of the code",
  "SECURITY.md": "Reporting a vulnerability",
};

/** Every page of the site, as the path of its source. */
export function listPages() {
  const named = SECTIONS.flatMap(({ pages }) => pages);
  const found = readdirSync(join(ROOT, "docs"), { recursive: true })
    .map((file) => `docs/${file.split(sep).join("/")}`)
    .filter((file) => file.endsWith(".md") && !named.includes(file));
  return [...named, ...found.toSorted()];
}

/** Pages whose own names would collide with others, or mislead. */
const ADDRESSES = { "SECURITY.md": "reporting.html", "AGENTS.md": "map.html" };

/** The address of a page below the site's root. */
export function toAddress(page) {
  if (ADDRESSES[page]) return ADDRESSES[page];
  const path = page.replace(/^docs\//, "").replace(/(^|\/)README\.md$/, "$1index.md");
  return path.toLowerCase().replace(/\.md$/, ".html");
}

/** The address of a page as a link on another one. */
export function toLink(from, to) {
  const path = relative(join("/", toAddress(from), ".."), join("/", toAddress(to)));
  return path.split(sep).join("/");
}
