/**
 * The page's own code, compiled with this project in strict mode: only the import and the class have other names.
 */
import {
  type AgentResponse,
  type BrowserUseResponse,
  type CheckpointInfo,
  type FileMap,
  type OutputResult,
  readLocalDir,
  saveLocalDir,
  type SessionStatus,
  Sluice,
} from "../../../src/index.ts";
import type { LifecycleEvent, OutputEvent } from "../../../src/dialects/sdk/events.ts";
import { z } from "zod";

export interface Ui {
  appendMessage(text: string): void;
  appendImage(data: string, mimeType: string): void;
  appendThought(content: unknown): void;
  addTool(tool: { id: string; title: string; kind: string; status: string; locations?: unknown }): void;
  updateTool(id: string, change: { status?: unknown; content?: unknown }): void;
  showLiveViewButton(url: string): void;
  showScreenshot(url: string): void;
  renderPlan(entries: unknown): void;
}

// Helper to detect browser-use tools (they have kind: "other")
export function isBrowserUseTool(title?: string): boolean {
  return title?.toLowerCase().includes("browser-use") ?? false;
}

export function extractBrowserUseUrls(text: string): {
  liveUrl?: string | undefined;
  screenshotUrl?: string | undefined;
} {
  let liveUrl: string | undefined;
  let screenshotUrl: string | undefined;

  // 1. Regex extraction (fast, handles malformed JSON)
  const liveMatch = text.match(/"live_url"\s*:\s*"([^"]+)"/);
  if (liveMatch) liveUrl = liveMatch[1];

  const screenshotMatch = text.match(/"screenshot_url"\s*:\s*"([^"]+)"/);
  if (screenshotMatch) screenshotUrl = screenshotMatch[1];

  // 2. JSON.parse fallback (for steps[].screenshot_url)
  if (!liveUrl || !screenshotUrl) {
    try {
      const parsed = JSON.parse(text) as BrowserUseResponse;
      if (!liveUrl) liveUrl = parsed.live_url;
      if (!screenshotUrl)
        screenshotUrl = parsed.screenshot_url ?? parsed.steps?.[parsed.steps.length - 1]?.screenshot_url;
    } catch {}
  }

  return { liveUrl, screenshotUrl };
}

/** The UI integration example. */
export function createHandler(ui: Ui): (event: OutputEvent) => void {
  // Track tool titles for browser detection
  const toolTitles = new Map<string, string>();

  return function handleEvent(event: OutputEvent): void {
    const { update } = event;

    switch (update.sessionUpdate) {
      case "agent_message_chunk":
        if (update.content.type === "text") {
          ui.appendMessage(update.content.text);
        } else {
          ui.appendImage(update.content.data, update.content.mimeType);
        }
        break;

      case "agent_thought_chunk":
        ui.appendThought(update.content);
        break;

      case "user_message_chunk":
        // Gemini echo - typically ignored
        break;

      case "tool_call": {
        // Store title for browser-use detection on updates
        toolTitles.set(update.toolCallId, update.title);

        // Determine effective kind for UI (browser-use has kind: "other")
        const effectiveKind = isBrowserUseTool(update.title) ? "browser" : update.kind;

        ui.addTool({
          id: update.toolCallId,
          title: update.title,
          kind: effectiveKind, // Use "browser" for browser-use tools
          status: update.status,
          locations: update.locations,
        });
        break;
      }

      case "tool_call_update": {
        // 1. Always update tool card with result
        ui.updateTool(update.toolCallId, {
          status: update.status,
          content: update.content,
        });

        // 2. Extract browser-use URLs if this is a browser-use tool
        const title = toolTitles.get(update.toolCallId);
        if (isBrowserUseTool(title)) {
          for (const c of update.content ?? []) {
            if (c.type === "content" && c.content?.type === "text") {
              const urls = extractBrowserUseUrls(c.content.text);
              if (urls.liveUrl) ui.showLiveViewButton(urls.liveUrl);
              if (urls.screenshotUrl) ui.showScreenshot(urls.screenshotUrl);
            }
          }
        }
        break;
      }

      case "plan":
        ui.renderPlan(update.entries);
        break;
    }
  };
}

/** 3.1 to 3.3. */
export async function runSnippets(evolve: Sluice): Promise<AgentResponse[]> {
  const seen: string[] = [];

  // Parsed events (recommended)
  evolve.on("content", (event: OutputEvent) => {
    seen.push(event.update.sessionUpdate);
  });

  // Lifecycle events (sandbox + agent state transitions)
  evolve.on("lifecycle", (event: LifecycleEvent) => {
    seen.push(`${event.reason} ${event.sandbox} ${event.agent}`);
  });

  // Raw output (debugging)
  evolve.on("stdout", (chunk: string) => void seen.push(chunk));
  evolve.on("stderr", (chunk: string) => void seen.push(chunk));

  const result = await evolve.run({
    prompt: "Analyze the data and create a report",
    timeoutMs: 15 * 60 * 1000, // (optional) Default 1 hour
    background: false, // (optional) Run in background
    checkpointComment: "after analysis", // (optional) Label for the auto-checkpoint
  });
  const checkpointId: string | undefined = result.checkpoint?.id;
  const restored = await evolve.run({ prompt: "Again", from: checkpointId ?? "latest" });

  // Run shell command directly in sandbox
  const command = await evolve.executeCommand("echo pytest", {
    timeoutMs: 10 * 60 * 1000, // (optional) Default 1 hour
    background: false, // (optional) Run in background
  });
  return [result, restored, command];
}

/** 3.4. */
export async function uploadSnippets(
  evolve: Sluice,
  data: unknown,
  csvBuffer: Buffer,
  input: string,
): Promise<void> {
  // Single file
  await evolve.uploadContext({ "spec.json": JSON.stringify(data) });

  // Multiple files
  await evolve.uploadFiles({
    "scripts/setup.sh": "#!/bin/bash\necho hello",
    "data/input.csv": csvBuffer,
  });

  // From local directory (helper)
  await evolve.uploadContext(readLocalDir(input, true));
}

/** 3.5. */
export async function downloadSnippets(
  base: Sluice,
  target: string,
): Promise<OutputResult<{ summary: string; score: number }>> {
  const ResultSchema = z.object({
    summary: z.string(),
    score: z.number(),
  });

  const evolve = base.withSchema(ResultSchema); // Agent will be prompted to write result.json

  await evolve.run({
    prompt: `#script [{"write":{"path":"output/result.json","content":"{\\"summary\\":\\"s\\",\\"score\\":85}"}}]`,
  });

  const output = await evolve.getOutputFiles(true); // recursive=true for nested dirs

  // Access all three fields
  const files: FileMap = output.files;
  saveLocalDir(target, files); // Save files locally
  const score: number | undefined = output.data?.score;
  const error: string | undefined = output.error;
  if (score === undefined || error !== undefined) throw new Error(error ?? "no score");
  return output;
}

/** 3.6 and 3.7. */
export async function controlSnippets(evolve: Sluice): Promise<{
  status: SessionStatus;
  list: CheckpointInfo[];
  url: string;
}> {
  // Steer a running task: interrupt, then reprompt in same session.
  // The next run() auto-continues conversation history/context for this sandbox session.
  void evolve.run({ prompt: "Do a full migration plan", background: true });
  const ok: boolean = await evolve.interrupt(); // Interrupts active run() or executeCommand() process
  if (!ok) throw new Error("nothing to interrupt");
  await evolve.run({ prompt: "Change direction: only auth migration." });

  const sessionId: string | null = evolve.getSession(); // Returns sandbox ID (string) or null (sync)
  const status = evolve.status(); // Synchronous snapshot of sandbox + agent state

  await evolve.pause(); // Suspends sandbox (stops billing, preserves state)
  await evolve.resume(); // Reactivates same sandbox

  // Checkpointing (requires .withStorage() — see Section 5.1)
  await evolve.checkpoint({ comment: "before refactor" }); // Explicit snapshot of current sandbox
  const list = await evolve.listCheckpoints({ limit: 10 }); // List checkpoints, newest first

  const url = await evolve.getHost(8000);

  await evolve.setSession(sessionId ?? ""); // Sets sandbox ID; reconnection happens on next run()
  await evolve.run({ prompt: "Go on" });
  await evolve.kill(); // Destroys sandbox; next run() creates a new sandbox
  return { status, list, url };
}
