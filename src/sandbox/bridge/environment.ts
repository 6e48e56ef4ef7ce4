export const PRELOAD_PATH = "/run/sluice-bridge/preload.cjs";

/** What makes an agent's programs take the way out: each knows one of these spellings. */
export function toProxyEnvironment(port: number, preload: boolean): Record<string, string> {
  const proxy = `http://127.0.0.1:${port}`;
  const local = "localhost,127.0.0.1,::1";
  return {
    HTTP_PROXY: proxy,
    HTTPS_PROXY: proxy,
    ALL_PROXY: proxy,
    http_proxy: proxy,
    https_proxy: proxy,
    all_proxy: proxy,
    NO_PROXY: local,
    no_proxy: local,
    // Node's own fetch heeds the above only with this, and only from 22.21 and 24 on.
    NODE_USE_ENV_PROXY: "1",
    ...(preload ? { NODE_OPTIONS: `--require=${PRELOAD_PATH}` } : {}),
  };
}
