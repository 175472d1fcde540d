-- The action lua.stint asks Stint whether a request may pass. It needs HAProxy
-- 2.6 or newer, and the section "listen stint" of fail-open.cfg or fail-closed.cfg.
--
--   http-request lua.stint open     requests pass while Stint does not answer
--   http-request lua.stint closed   they are refused with 503

-- What a visitor may not say, and what belongs to its connection alone.
local dropped = {
	["connection"] = true, ["content-length"] = true, ["expect"] = true, ["forwarded"] = true, ["host"] = true,
	["keep-alive"] = true, ["proxy-connection"] = true, ["te"] = true, ["trailer"] = true,
	["transfer-encoding"] = true, ["upgrade"] = true,
}

-- Fields of an answer of Stint that the visitor of an allowed request gets, too.
local passed_on = { "ratelimit", "ratelimit-policy", "stint-degraded" }

local function describe(txn)
	local headers = {}
	for name, values in pairs(txn.http:req_get_headers()) do
		if not dropped[name] and not name:find("^x%-forwarded%-") and not name:find("^x%-original%-") then
			headers[name] = {}
			for i = 0, #values do
				table.insert(headers[name], values[i])
			end
		end
	end
	headers["x-forwarded-method"] = { txn.sf:method() }
	headers["x-forwarded-uri"] = { txn.sf:pathq() }
	headers["x-forwarded-host"] = { txn.sf:req_fhdr("host") }
	headers["x-forwarded-for"] = { txn.sf:src() }
	return headers
end

local function refuse(txn, status, headers, body)
	local reply = txn:reply({ status = status })
	for name, values in pairs(headers) do
		if not dropped[name] and name ~= "date" then
			for i = 0, #values do
				reply:add_header(name, values[i])
			end
		end
	end
	reply:set_body(body)
	txn:done(reply)
end

core.register_action("stint", { "http-req" }, function(txn, when_down)
	local asked, answer = pcall(function()
		return core.httpclient():get({
			url = "http://stint/auth/forward",
			dst = "abns@stint", -- HAProxy's own "listen stint"
			headers = describe(txn),
			timeout = 60000, -- that of "listen stint" is shorter
		})
	end)
	local headers = asked and answer and answer.headers or {}
	if asked and answer and answer.status == 204 then
		for _, name in ipairs(passed_on) do
			if headers[name] then
				txn:set_var("txn.stint_" .. name:gsub("-", "_"), headers[name][0])
			end
		end
	elseif asked and answer and answer.status >= 400 and not headers["stint-down"] then
		refuse(txn, answer.status, headers, answer.body)
	elseif not headers["stint-down"] or when_down ~= "open" then
		refuse(txn, 503, { ["content-type"] = { [0] = "application/problem+json" } }, '{"title":"Service Unavailable","status":503}\n')
	end
end, 1)
