// A map of up to a million points. WebGL where a graphics card does it, else a plain canvas that adds points up per pixel:
// WebGL in software took 40 times as long for a million points.
// Places are int16 pairs and colors are bytes, each fetched once as binary; whoever is marked is drawn on top.

const VERTEX = `
attribute vec2 place; attribute vec4 color; uniform vec2 scale; uniform vec2 offset; uniform float size;
varying vec4 tint;
void main() { gl_Position = vec4(place * scale + offset, 0.0, 1.0); gl_PointSize = size; tint = color; }`;
const FRAGMENT = `
precision mediump float; varying vec4 tint; uniform float alpha;
void main() {
  float far = length(gl_PointCoord - 0.5);
  float edge = 1.0 - smoothstep(0.40, 0.5, far);
  gl_FragColor = vec4(tint.rgb, 1.0) * tint.a * alpha * edge;
}`;

function rgb(hex) {
  const n = parseInt(hex.slice(1), 16);
  return [n >> 16, (n >> 8) & 255, n & 255];
}

function hasGraphicsCard() { // asked of a canvas of its own: one that has drawn by WebGL cannot draw otherwise
  const gl = document.createElement("canvas").getContext("webgl");
  const names = gl?.getExtension("WEBGL_debug_renderer_info");
  const name = names ? gl.getParameter(names.UNMASKED_RENDERER_WEBGL) : "";
  gl?.getExtension("WEBGL_lose_context")?.loseContext();
  return !!gl && !/swiftshader|llvmpipe|software|basic render/i.test(name);
}

export default {
  template: `
    <div class="point-map" style="position: relative; width: 100%; height: 100%; overflow: hidden; touch-action: none">
      <canvas ref="base" style="position: absolute; inset: 0; width: 100%; height: 100%"></canvas>
      <canvas ref="top" tabindex="0" role="application" :aria-label="label" :data-mode="mode"
        :style="{ position: 'absolute', inset: 0, width: '100%', height: '100%',
          cursor: mode === 'lasso' ? 'crosshair' : 'grab' }"></canvas>
    </div>`,
  props: {
    pointsUrl: String,
    colorsUrl: String,
    palette: Array,
    view: Array,
    marks: Array,
    mode: String,
    label: String,
  },
  data: () => ({ n: 0 }),
  async mounted() {
    this.center = [0, 0];
    this.zoom = 1;
    this.path = null;
    this.pointers = new Map();
    this.renderer = "canvas";
    if (hasGraphicsCard()) this.setUpGl();
    const top = this.$refs.top;
    top.addEventListener("pointerdown", (e) => this.down(e));
    top.addEventListener("pointermove", (e) => this.move(e));
    top.addEventListener("pointerup", (e) => this.up(e));
    top.addEventListener("pointercancel", (e) => this.up(e));
    top.addEventListener("wheel", (e) => this.wheel(e), { passive: false });
    top.addEventListener("keydown", (e) => this.key(e));
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.$el);
    this.resize();
    await this.load();
  },
  beforeUnmount() {
    this.observer?.disconnect();
    this.gl?.getExtension("WEBGL_lose_context")?.loseContext();
  },
  watch: {
    pointsUrl() { this.load(); },
    colorsUrl() { this.loadColors(); },
    palette(now, before) { // each update brings a copy; and colors that are on their way are painted when they come
      if (this.colorsUrl === this.shownUrl && String(now) !== String(before)) this.paint();
    },
    marks: { handler() { this.drawTop(); }, deep: true },
    mode() { this.path = null; this.drawTop(); },
  },
  methods: {
    setUpGl() {
      const gl = this.$refs.base.getContext("webgl", { premultipliedAlpha: true, antialias: false, preserveDrawingBuffer: true });
      const program = gl.createProgram();
      for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
        const shader = gl.createShader(kind);
        gl.shaderSource(shader, source);
        gl.compileShader(shader);
        gl.attachShader(program, shader);
      }
      gl.linkProgram(program);
      if (!gl.getProgramParameter(program, gl.LINK_STATUS)) return;
      gl.useProgram(program);
      gl.enable(gl.BLEND);
      gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
      this.gl = gl;
      this.renderer = "webgl";
      this.where = Object.fromEntries(["scale", "offset", "size", "alpha"].map((n) => [n, gl.getUniformLocation(program, n)]));
      this.places = gl.createBuffer();
      this.tints = gl.createBuffer();
      gl.bindBuffer(gl.ARRAY_BUFFER, this.places);
      const place = gl.getAttribLocation(program, "place");
      gl.enableVertexAttribArray(place);
      gl.vertexAttribPointer(place, 2, gl.SHORT, false, 4, 0);
      gl.bindBuffer(gl.ARRAY_BUFFER, this.tints);
      const color = gl.getAttribLocation(program, "color");
      gl.enableVertexAttribArray(color);
      gl.vertexAttribPointer(color, 4, gl.UNSIGNED_BYTE, true, 4, 0);
      this.$refs.base.addEventListener("webglcontextlost", (e) => e.preventDefault());
    },
    async fetched(url) {
      const answer = await fetch(url);
      if (!answer.ok) throw new Error(`${url}: ${answer.status}`);
      return answer.arrayBuffer();
    },
    async load() {
      if (!this.pointsUrl) return;
      this.began = performance.now();
      const buffer = await this.fetched(this.pointsUrl);
      this.n = new Uint32Array(buffer, 0, 1)[0];
      this.xy = new Int16Array(buffer, 4, 2 * this.n);
      this.weights = new Uint8Array(buffer, 4 + 4 * this.n, this.n);
      this.colors = null;
      if (this.gl) {
        this.gl.bindBuffer(this.gl.ARRAY_BUFFER, this.places);
        this.gl.bufferData(this.gl.ARRAY_BUFFER, this.xy, this.gl.STATIC_DRAW);
      }
      this.reset();
      await this.loadColors();
    },
    async loadColors() {
      if (!this.xy) return;
      const url = this.colorsUrl;
      const bytes = url ? new Uint8Array(await this.fetched(url)) : null;
      if (url !== this.colorsUrl) return;
      this.colors = bytes;
      this.shownUrl = url;
      this.paint();
    },
    paint() {
      if (!this.xy) return;
      const tints = new Uint8Array(3 * 256), n = this.n, colors = this.colors, weights = this.weights;
      for (let c = 0; c < 256; c++) tints.set(rgb((this.palette || [])[c] || "#9aa0a6"), 3 * c);
      const rgba = this.rgba = new Uint8Array(4 * n);
      for (let i = 0; i < n; i++) {
        const c = colors ? colors[i] : 255;
        rgba[4 * i] = tints[3 * c]; rgba[4 * i + 1] = tints[3 * c + 1]; rgba[4 * i + 2] = tints[3 * c + 2];
        rgba[4 * i + 3] = (c === 255 && colors ? 0.45 : 1) * (110 + (145 * weights[i]) / 255);
      }
      if (this.gl) {
        this.gl.bindBuffer(this.gl.ARRAY_BUFFER, this.tints);
        this.gl.bufferData(this.gl.ARRAY_BUFFER, this.rgba, this.gl.STATIC_DRAW);
      }
      this.draw();
    },
    reset() {
      const [x0, y0, x1, y1] = this.view || [-32768, -32768, 32767, 32767];
      this.center = [(x0 + x1) / 2, (y0 + y1) / 2];
      this.zoom = Math.min(this.width / (x1 - x0), this.height / (y1 - y0));
    },
    resize() {
      const ratio = window.devicePixelRatio || 1, box = this.$el.getBoundingClientRect();
      if (!box.width || !box.height) return;
      const first = !this.width;
      this.width = box.width; this.height = box.height; this.ratio = ratio;
      for (const canvas of [this.$refs.base, this.$refs.top]) {
        canvas.width = Math.round(box.width * ratio);
        canvas.height = Math.round(box.height * ratio);
      }
      if (first || !this.moved) this.reset();
      this.draw();
    },
    screen([x, y]) {
      return [this.width / 2 + (x - this.center[0]) * this.zoom, this.height / 2 - (y - this.center[1]) * this.zoom];
    },
    world([x, y]) {
      return [this.center[0] + (x - this.width / 2) / this.zoom, this.center[1] - (y - this.height / 2) / this.zoom];
    },
    draw() {
      if (this.queued) return;
      this.queued = true;
      requestAnimationFrame(() => {
        this.queued = false;
        if (!this.width) return;
        if (this.rgba) (this.gl ? this.drawGl() : this.drawPlain());
        this.drawTop();
        if (this.began && this.rgba) {
          // Reading a pixel waits until all are there; gl.finish() does not.
          this.gl?.readPixels(0, 0, 1, 1, this.gl.RGBA, this.gl.UNSIGNED_BYTE, new Uint8Array(4));
          this.$emit("drawn", { renderer: this.renderer, n: this.n, ms: performance.now() - this.began });
          this.began = null;
        }
      });
    },
    look() { // the more points on the screen, the smaller and the fainter
      const near = this.zoom / Math.min(this.width, this.height) * 65535;
      const size = Math.min(14, Math.max(1.6, 150 / Math.sqrt(this.n + 1)) * Math.sqrt(Math.max(1, near)));
      const alpha = Math.min(0.9, Math.max(0.16, 90 / Math.sqrt(this.n + 1)));
      return { size: Math.min(9, Math.max(1.6, size)), alpha };
    },
    drawGl() {
      const gl = this.gl, canvas = this.$refs.base, { size, alpha } = this.look();
      gl.viewport(0, 0, canvas.width, canvas.height);
      gl.clearColor(0, 0, 0, 0);
      gl.clear(gl.COLOR_BUFFER_BIT);
      const sx = (2 * this.zoom) / this.width, sy = (2 * this.zoom) / this.height;
      gl.uniform2f(this.where.scale, sx, sy);
      gl.uniform2f(this.where.offset, -this.center[0] * sx, -this.center[1] * sy);
      gl.uniform1f(this.where.size, size * this.ratio);
      gl.uniform1f(this.where.alpha, alpha);
      gl.drawArrays(gl.POINTS, 0, this.n);
    },
    drawPlain() { // every pixel takes the average color of its points, and is the more solid the more there are
      const canvas = this.$refs.base, w = canvas.width, h = canvas.height, { size, alpha } = this.look();
      const sums = new Float32Array(4 * w * h), zoom = this.zoom * this.ratio, [cx, cy] = this.center;
      const radius = Math.min(4.5, (size * this.ratio) / 2), r = Math.ceil(radius - 0.5);
      const xy = this.xy, rgba = this.rgba;
      const steps = [], parts = []; // the pixels of a point, and how much of each it covers
      for (let v = -r; v <= r; v++) for (let u = -r; u <= r; u++) {
        const part = Math.min(1, radius + 0.5 - Math.hypot(u, v));
        if (part > 0) { steps.push(4 * (v * w + u)); parts.push(part); }
      }
      for (let i = 0, n = this.n, m = steps.length; i < n; i++) {
        const x = Math.round(w / 2 + (xy[2 * i] - cx) * zoom), y = Math.round(h / 2 - (xy[2 * i + 1] - cy) * zoom);
        if (x < r || y < r || x >= w - r || y >= h - r) continue; // at the edge, too: so no pixel is outside
        const at = 4 * (y * w + x), c = 4 * i, a = rgba[c + 3] / 255, red = rgba[c], green = rgba[c + 1], blue = rgba[c + 2];
        for (let j = 0; j < m; j++) {
          const to = at + steps[j], part = a * parts[j];
          sums[to] += part * red; sums[to + 1] += part * green; sums[to + 2] += part * blue; sums[to + 3] += part;
        }
      }
      const solid = Math.min(0.95, 0.9 * alpha); // WebGL's discs have softer edges
      const context = canvas.getContext("2d"), image = context.createImageData(w, h), out = image.data;
      for (let at = 0; at < sums.length; at += 4) {
        const total = sums[at + 3];
        if (!total) continue;
        out[at] = sums[at] / total; out[at + 1] = sums[at + 1] / total; out[at + 2] = sums[at + 2] / total;
        out[at + 3] = 255 * (1 - Math.pow(1 - solid, total));
      }
      context.putImageData(image, 0, 0);
    },
    drawTop() {
      const canvas = this.$refs.top;
      if (!canvas) return;
      const g = canvas.getContext("2d"), ink = getComputedStyle(this.$el).color;
      g.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
      g.clearRect(0, 0, this.width, this.height);
      for (const [x, y, name] of [...(this.marks || [])].reverse()) {
        const [u, v] = this.screen([x, y]), me = name === "";
        g.beginPath();
        g.arc(u, v, me ? 8 : 6, 0, 7);
        g.lineWidth = 4; g.strokeStyle = "rgba(255,255,255,.9)"; g.stroke();
        g.lineWidth = me ? 3 : 2; g.strokeStyle = me ? "#d55e00" : "#1b2733"; g.stroke();
        if (!me) {
          g.font = "600 11px system-ui, sans-serif";
          g.lineWidth = 3; g.strokeStyle = "rgba(255,255,255,.9)"; g.strokeText(name, u + 8, v - 6);
          g.fillStyle = "#1b2733"; g.fillText(name, u + 8, v - 6);
        }
      }
      if (this.path) {
        g.beginPath();
        this.path.forEach((p, i) => { const [u, v] = this.screen(p); i ? g.lineTo(u, v) : g.moveTo(u, v); });
        if (this.closed) g.closePath();
        g.lineWidth = 2; g.setLineDash([5, 4]); g.strokeStyle = ink; g.stroke(); g.setLineDash([]);
        g.fillStyle = "rgba(0,114,178,.10)"; g.fill();
      }
    },
    at(e) {
      const box = this.$refs.top.getBoundingClientRect();
      return [e.clientX - box.left, e.clientY - box.top];
    },
    down(e) {
      this.$refs.top.setPointerCapture(e.pointerId);
      this.pointers.set(e.pointerId, this.at(e));
      this.start = this.at(e);
      this.dragged = false;
      if (this.mode === "lasso" && this.pointers.size === 1) { this.path = [this.world(this.at(e))]; this.closed = false; }
    },
    move(e) {
      const before = this.pointers.get(e.pointerId);
      if (!before) return;
      const now = this.at(e);
      if (Math.hypot(now[0] - this.start[0], now[1] - this.start[1]) > 4) this.dragged = true;
      if (this.pointers.size === 2) {
        const other = [...this.pointers.entries()].find(([id]) => id !== e.pointerId)[1];
        const far = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]);
        this.zoomAt(other, far(now, other) / Math.max(1, far(before, other)));
        this.path = null;
      } else if (this.mode === "lasso" && this.path) {
        this.path.push(this.world(now));
        this.drawTop();
      } else if (this.dragged) {
        this.center[0] -= (now[0] - before[0]) / this.zoom;
        this.center[1] += (now[1] - before[1]) / this.zoom;
        this.moved = true;
        this.draw();
      }
      this.pointers.set(e.pointerId, now);
    },
    up(e) {
      if (!this.pointers.delete(e.pointerId) || this.pointers.size) return;
      if (this.mode === "lasso" && this.path && this.path.length > 3) {
        this.closed = true;
        this.drawTop();
        this.$emit("lasso", this.path.map(([x, y]) => [Math.round(x), Math.round(y)]));
      } else if (!this.dragged && e.type === "pointerup" && this.xy) {
        const [x, y] = this.world(this.at(e));
        this.$emit("pick", [x, y]);
      }
    },
    zoomAt(where, factor) {
      const before = this.world(where);
      this.zoom = Math.min(2, Math.max(1e-4, this.zoom * factor));
      const after = this.world(where);
      this.center[0] += before[0] - after[0];
      this.center[1] += before[1] - after[1];
      this.moved = true;
      this.draw();
    },
    wheel(e) {
      e.preventDefault();
      this.zoomAt(this.at(e), Math.exp(-e.deltaY / 400));
    },
    key(e) {
      const step = 60 / this.zoom, middle = [this.width / 2, this.height / 2];
      const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
      if (moves[e.key]) {
        this.center[0] += moves[e.key][0];
        this.center[1] += moves[e.key][1];
        this.moved = true;
        this.draw();
      } else if (e.key === "+" || e.key === "=") this.zoomAt(middle, 1.4);
      else if (e.key === "-") this.zoomAt(middle, 1 / 1.4);
      else if (e.key === "0") { this.reset(); this.draw(); }
      else if (e.key === "Enter") this.$emit("pick", this.center);
      else return;
      e.preventDefault();
    },
    clear_lasso() { this.path = null; this.drawTop(); },
  },
};
