import { parseOthersJson } from "../contract/index.ts";

/**
 * What a browser-use tool answers, as a JSON string in the text of its update.
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
 * Whether a tool is one of the browser-use server's: their `kind` is `other`, so the title has to tell.
 *
 * @example
 * isBrowserUseTool("browser-use: browser_task"); // true
 */
export function isBrowserUseTool(title?: string): boolean {
  return title?.toLowerCase().includes("browser-use") ?? false;
}

/**
 * The addresses in a browser-use answer; text that is no JSON gives what it shows.
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
  try {
    const value: unknown = parseOthersJson(text);
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}
