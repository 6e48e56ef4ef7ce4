import { parseJsonOr } from "../contract/index.ts";

/**
 * The answer of a browser-use tool, as JSON in the text of its update.
 *
 * @example
 * const { task_output, is_success } = JSON.parse(text) as BrowserUseResponse;
 */
export interface BrowserUseResponse {
  task_id?: string;
  session_id?: string;
  live_url?: string;
  screenshot_url?: string;
  steps?: {
    step_number: number;
    screenshot_url?: string;
    url?: string;
    memory?: string;
  }[];
  is_success?: boolean | null;
  task_output?: string | null;
}

/**
 * Whether a tool belongs to the browser-use server, judged by its title.
 *
 * @example
 * isBrowserUseTool("browser-use: browser_task"); // true
 */
export function isBrowserUseTool(title?: string): boolean {
  return title?.toLowerCase().includes("browser-use") ?? false;
}

/**
 * The URLs in a browser-use answer, also in text that is not valid JSON.
 *
 * @example
 * extractBrowserUseUrls('{"live_url":"https://live.example/1"}').liveUrl; // "https://live.example/1"
 */
export function extractBrowserUseUrls(text: string): { liveUrl?: string; screenshotUrl?: string } {
  const parsed = parseResponse(text);
  const liveUrl = find(text, "live_url") ?? parsed?.live_url;
  const last = parsed?.steps?.at(-1)?.screenshot_url;
  const screenshotUrl = find(text, "screenshot_url") ?? parsed?.screenshot_url ?? last;
  return {
    ...(liveUrl === undefined ? {} : { liveUrl }),
    ...(screenshotUrl === undefined ? {} : { screenshotUrl }),
  };
}

function find(text: string, key: string): string | undefined {
  return new RegExp(`"${key}"\\s*:\\s*"([^"]+)"`).exec(text)?.[1];
}

function parseResponse(text: string): BrowserUseResponse | undefined {
  const value = parseJsonOr(text, undefined);
  return typeof value === "object" && value !== null ? value : undefined;
}
